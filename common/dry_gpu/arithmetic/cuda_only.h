#pragma once
// Operators that only a GPU has, written with those that a CPU has, too.

#include <ATen/core/stack.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenfold::dry {

/// From an operator's arguments, and from what LibTorch's own code has put into its results, to its results, all on the
/// CPU. A result that nobody reads on a CPU is none.
using OnCpu = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>&, const std::vector<c10::IValue>&)>;

/// nullptr where the CPU's own operator of that name will do. `name` is that of all overloads, "aten::_softmax", or of
/// one, "aten::mm.dtype".
const OnCpu* on_cpu(const std::string& name);

/// Those of attention, by the names of all overloads.
const std::map<std::string, OnCpu>& attention_on_cpu();

}  // namespace tenfold::dry
