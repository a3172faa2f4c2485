#pragma once
// Reading an operator's arguments, for what computes them on the CPU.

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

namespace tenfold::dry {

using Values = std::vector<c10::IValue>;

/// Undefined where an optional tensor is none.
inline at::Tensor tensor_of(const c10::IValue& value) { return value.isTensor() ? value.toTensor() : at::Tensor(); }
inline std::optional<at::Tensor> optional_of(const c10::IValue& value) {
  const at::Tensor tensor = tensor_of(value);
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// In 32 bits, unless it has more.
inline at::Tensor wide(const at::Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() != at::kDouble ? tensor.to(at::kFloat) : tensor;
}
inline at::Tensor wide(const c10::IValue& value) { return wide(tensor_of(value)); }

}  // namespace tenfold::dry
