#pragma once
// Places of a program: the calls that led somewhere, from the program's own functions on. LibTorch's and CUDA's are
// left out, and so are those of Python's interpreter.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/dry_gpu/order.h"

namespace tenfold::dry {

/// Whose code lies at an address.
enum class Owner { program, python, libtorch, allocators, others };
Owner owner_of(uintptr_t address);

/// The return addresses of this thread, from the inside out.
std::vector<uintptr_t> calls_here();
/// Those of them that lie in the program's own code, at most so many.
std::vector<uintptr_t> own_calls(const std::vector<uintptr_t>& calls, size_t most);
/// A place by its own calls; the same object for the same ones. nullptr for none.
std::shared_ptr<const Where> place_of(const std::vector<uintptr_t>& own);
/// Functions of the innermost calls, without LibTorch's that are compiled into the program, with file and line where
/// the program says them (-g).
std::string text_of(const std::vector<uintptr_t>& own);
/// Whether a function of LibTorch's headers, which programs compile in, lies at an address of the program.
bool in_wrapper(uintptr_t address);

/// As a person writes it; what is no mangled name stays as it is.
std::string demangled(const char* name);

}  // namespace tenfold::dry
