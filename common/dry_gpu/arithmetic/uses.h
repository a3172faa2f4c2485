#pragma once
// What operators use of memory, and where a program asks for them: for the order of streams (common/dry_gpu/races.h).

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <vector>

#include "common/dry_gpu/order.h"

namespace tenfold::dry {

/// The bytes that a tensor's elements take; those between the columns of a matrix are not its own.
Bytes bytes_of(const at::Tensor& tensor);

/// What an operator reads and writes on the card.
std::vector<Access> uses_of(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                            const std::vector<c10::IValue>& results);

/// An operator that begins here. In a backward pass its place is that of the forward pass that it belongs to. Nobody
/// may hold a lock: Python has one of its own.
std::shared_ptr<const User> user_of(const std::string& name);

/// Whether the program is Python's.
bool in_python();

/// The CPU's operator may use pinned memory that a stream still copies from or to.
void check_pinned(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments);

/// From now on what LibTorch's allocator hands out is followed; CUDA must be known to LibTorch.
void follow_allocator();

}  // namespace tenfold::dry
