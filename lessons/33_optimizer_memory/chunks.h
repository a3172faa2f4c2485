#pragma once
// Long tensors chunk by chunk, so that what a chunk needs in 32 bits is all that there is of it at a time.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>

#include "eight_bit_codes.h"

namespace tenfold::inline lesson_33 {

/// Some values of a tensor: whole blocks, or what is left after them.
struct Chunk {
  int64_t begin, count;

  int64_t first_block() const { return begin / kBlock; }
  int64_t blocks() const { return (count + kBlock - 1) / kBlock; }
  /// This chunk of a tensor's values in the order in which they lie in memory, as blocks: (blocks, kBlock), or
  /// (1, rest). A view, of channels_last tensors too. Throws c10::Error for a tensor with gaps.
  torch::Tensor of(const torch::Tensor& tensor) const {
    TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "Chunk: a tensor of shape ", tensor.sizes(), " with strides ",
                tensor.strides(), " has gaps between its values; make it contiguous() first");
    return tensor.detach()
        .as_strided({tensor.numel()}, {1}, tensor.storage_offset())
        .narrow(0, begin, count)
        .view({blocks(), -1});
  }
  /// Their blocks' maxima, (blocks, 1), of those of all blocks (all, 1).
  torch::Tensor maxima_of(const torch::Tensor& maxima) const { return maxima.narrow(0, first_block(), blocks()); }
};

/// A parameter's gradient with its values in the parameter's order, as backward() makes it; if not, a copy.
inline torch::Tensor gradient_in_order(const torch::Tensor& parameter) {
  const torch::Tensor& gradient = parameter.grad();
  if (gradient.strides() == parameter.strides()) return gradient;
  return torch::empty_like(parameter).copy_(gradient);
}

/// Calls `visit` with each chunk of `count` values: at most `most` at a time, of which only whole blocks are taken, and
/// the last block alone if it is not full.
template <class Visit>
void for_each_chunk(int64_t count, int64_t most, const Visit& visit) {
  const int64_t whole = std::max(kBlock, most / kBlock * kBlock);
  int64_t taken = 0;
  for (int64_t begin = 0; begin < count; begin += taken) {
    const int64_t left = count - begin;
    taken = left < kBlock ? left : std::min(whole, left / kBlock * kBlock);
    visit(Chunk{begin, taken});
  }
}

}  // namespace tenfold::inline lesson_33
