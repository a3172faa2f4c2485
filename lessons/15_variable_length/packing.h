#pragma once
// Sequences of different lengths as one batch: padded to a rectangle, or packed one after the other with nothing
// between.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/models/host_batch.h"
#include "common/models/token_stream.h"
#include "kernels/pack/pack_torch.h"

namespace tenfold::inline lesson_15 {

/// A target that no loss counts: the default ignore_index of cross-entropy.
inline constexpr int64_t kIgnoredTarget = -100;

/// Where packed sequences lie: sequence i is rows offsets[i] to offsets[i + 1] - 1 of `total` rows.
struct Packing {
  std::vector<int64_t> lengths, offsets;  ///< (N) and (N + 1), on the host: the sizes of what is launched
  torch::Tensor cu_seqlens;               ///< (N + 1) int32, on the device: the offsets, for kernels
  torch::Tensor positions;    ///< (total) int64, on the device: the position of each row in its own sequence
  torch::Tensor sequence_of;  ///< (total) int64, on the device: the sequence that each row belongs to
  torch::Tensor mask;         ///< (total, total), for attention that takes one: see block_diagonal_mask; else undefined
  int64_t count() const { return static_cast<int64_t>(lengths.size()); }
  int64_t total() const { return offsets.back(); }
  int64_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
};

/// Lays sequences of these lengths out in their order, on the host. Throws c10::Error unless there is one, and none is
/// empty.
inline Packing make_packing(std::vector<int64_t> lengths) {
  TORCH_CHECK(!lengths.empty(), "make_packing: no sequences");
  Packing packing;
  packing.offsets.push_back(0);
  std::vector<int64_t> positions, sequence_of;
  for (const int64_t length : lengths) {
    TORCH_CHECK(length >= 1, "make_packing: a sequence of length ", length);
    for (int64_t t = 0; t < length; ++t) {
      positions.push_back(t);
      sequence_of.push_back(static_cast<int64_t>(packing.offsets.size()) - 1);
    }
    packing.offsets.push_back(packing.offsets.back() + length);
  }
  TORCH_CHECK(packing.total() <= std::numeric_limits<int32_t>::max(), "make_packing: ", packing.total(),
              " rows are too many");
  packing.lengths = std::move(lengths);
  packing.cu_seqlens = torch::tensor(packing.offsets).to(torch::kInt);
  packing.positions = torch::tensor(positions);
  packing.sequence_of = torch::tensor(sequence_of);
  return packing;
}

/// The packing on a device, and after it, by the same copy, other arrays of its batch. The host does not wait.
inline std::vector<torch::Tensor> send_with(Packing& packing, std::vector<torch::Tensor> others, torch::Device device) {
  others.insert(others.begin(), {packing.cu_seqlens, packing.positions, packing.sequence_of});
  others = tensors_on(device, std::move(others));
  packing.cu_seqlens = others[0], packing.positions = others[1], packing.sequence_of = others[2];
  others.erase(others.begin(), others.begin() + 3);
  return others;
}

inline Packing make_packing(std::vector<int64_t> lengths, torch::Device device) {
  Packing packing = make_packing(std::move(lengths));
  send_with(packing, {}, device);
  return packing;
}

/// (count, longest, ...) from packed rows (total, ...), with zeros behind each sequence's end. On CUDA kernels/pack
/// does it; on a CPU, where that kernel runs under the microscope, an operator of ATen. pack_rows is its gradient.
inline torch::Tensor unpack_rows(const torch::Tensor& packed, const Packing& packing) {
  if (packed.is_cuda()) return fused::unpack(packed, packing.cu_seqlens, packing.longest());
  std::vector<int64_t> shape = packed.sizes().vec();
  shape[0] = packing.count() * packing.longest();
  const torch::Tensor places = packing.sequence_of * packing.longest() + packing.positions;
  const torch::Tensor rows = torch::zeros(shape, packed.options().requires_grad(false)).index_put_({places}, packed);
  return rows.unflatten(0, {packing.count(), packing.longest()});
}

/// The inverse: the rows of (count, longest, ...) that are no padding, (total, ...).
inline torch::Tensor pack_rows(const torch::Tensor& padded, const Packing& packing) {
  if (padded.is_cuda()) return fused::pack(padded, packing.cu_seqlens, packing.total());
  const torch::Tensor places = packing.sequence_of * packing.longest() + packing.positions;
  return padded.flatten(0, 1).index_select(0, places);
}

/// Texts as a rectangle. What is behind a text's end is padding: id 0, and a target that no loss counts.
struct PaddedBatch {
  torch::Tensor ids, targets;  ///< (N, length) int64, on the device
};

/// Texts one after the other.
struct PackedBatch {
  torch::Tensor ids, targets;  ///< (total) int64, on the device
  Packing packing;
};

/// Pads texts to `length`, which none of them may exceed without its last id. Throws c10::Error.
inline PaddedBatch pad_batch(const std::vector<TextIds>& texts, int64_t length, torch::Device device,
                             int64_t target_of_padding = kIgnoredTarget) {
  const auto count = static_cast<int64_t>(texts.size());
  const torch::Tensor ids = torch::zeros({count, length}, torch::kLong),
                      targets = torch::full_like(ids, target_of_padding);
  for (int64_t i = 0; i < count; ++i) {
    const TextIds text = texts[static_cast<size_t>(i)];
    TORCH_CHECK(text.size() >= 2 && static_cast<int64_t>(text.size()) - 1 <= length, "pad_batch: a text of ",
                text.size(), " ids does not fit into ", length);
    std::copy(text.begin(), text.end() - 1, ids.data_ptr<int64_t>() + i * length);
    std::copy(text.begin() + 1, text.end(), targets.data_ptr<int64_t>() + i * length);
  }
  const std::vector<torch::Tensor> sent = tensors_on(device, {ids, targets});
  return {sent[0], sent[1]};
}

/// Packs texts in their order. Throws c10::Error for a text of fewer than two ids, or no text.
inline PackedBatch pack_batch(const std::vector<TextIds>& texts, torch::Device device) {
  std::vector<int64_t> ids, targets, lengths;
  for (const TextIds text : texts) {
    TORCH_CHECK(text.size() >= 2, "pack_batch: a text of ", text.size(), " ids has no token to say");
    ids.insert(ids.end(), text.begin(), text.end() - 1);
    targets.insert(targets.end(), text.begin() + 1, text.end());
    lengths.push_back(static_cast<int64_t>(text.size()) - 1);
  }
  PackedBatch batch{.packing = make_packing(std::move(lengths))};
  const std::vector<torch::Tensor> sent =
      send_with(batch.packing, {torch::tensor(ids), torch::tensor(targets)}, device);
  batch.ids = sent[0], batch.targets = sent[1];
  return batch;
}

}  // namespace tenfold::inline lesson_15
