#pragma once
// The GPT on packed texts. Embedding, norms, linear layers and loss take rows and never ask whose they are; attention
// has to know.

#include <torch/torch.h>

#include <memory>
#include <utility>

#include "common/models/gpt.h"
#include "packing.h"
#include "varlen_attention.h"

namespace tenfold::inline lesson_15 {

/// Of the batch that the model computes: packed_loss() sets it, the model's attention reads it.
using CurrentPacking = std::shared_ptr<Packing>;

/// The GPT with attention that keeps texts apart. Throws c10::Error for a GPT that trains with dropout.
inline GptParts with_packed_attention(const CurrentPacking& current, PackedAttention attention) {
  return {.attention = [current, attention = std::move(attention)](const torch::Tensor& qkv, double dropout) {
    TORCH_CHECK(dropout == 0, "with_packed_attention: has no dropout");
    return attention(qkv, *current);
  }};
}

/// Mean cross-entropy over the tokens of all texts. Positions start again with each text.
inline torch::Tensor packed_loss(GptImpl& model, const CurrentPacking& current, const PackedBatch& batch) {
  *current = batch.packing;
  const torch::Tensor h = model.blocks_forward(model.embed(batch.ids, batch.packing.positions));  // (total, D)
  *current = {};
  return model.loss(h, batch.targets);
}

}  // namespace tenfold::inline lesson_15
