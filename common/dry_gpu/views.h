#pragma once
// Tensors of a dry card as the CPU sees them: the same bytes, the same shape.

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

namespace tenfold::dry {

/// A CPU tensor over the bytes of one on the card, whose memory it does not keep: LibTorch may hand that out again, as
/// on a GPU. Any other tensor as it is.
at::Tensor cpu_view(const at::Tensor& tensor);

/// The same for what an operator takes or returns: tensors in lists, and a device becomes the CPU.
c10::IValue cpu_view(const c10::IValue& value);

/// Whether it names the card, or holds a tensor that lies there.
bool on_card(const c10::IValue& value);

/// Every tensor that it holds.
std::vector<at::Tensor> tensors_of(const c10::IValue& value);

/// Writes what was computed into the operator's own results, which lie on the card (seen through cpu_view) or on the
/// CPU. False when they do not fit.
bool write_results(const std::vector<c10::IValue>& computed, const std::vector<c10::IValue>& results);

}  // namespace tenfold::dry
