#pragma once
// R2's GPT on packed texts. Embedding, norms, linear layers and loss take rows and never ask whose they are; attention has to know.

#include <torch/torch.h>

#include <tenfold/gpt.h>
#include <tenfold/packing.h>
#include <tenfold/varlen_attention.h>

namespace tenfold {

/// GptBlock::forward without dropout, (total, D) -> (total, D). Marks the regions "block.forward" and "attention".
inline torch::Tensor packed_block(GptBlockImpl& block, const torch::Tensor& x, const Packing& packing, const PackedAttention& attention) {
  TORCH_CHECK(block.dropout == 0, "packed_block: has no dropout");
  return block.forward_with(x, [&](const torch::Tensor& qkv) { return attention(qkv, packing); });
}

/// Mean cross-entropy over the tokens of all texts. Positions begin anew with each text.
inline torch::Tensor packed_loss(GptImpl& model, const PackedBatch& batch, const PackedAttention& attention) {
  torch::Tensor h = model.tokens(batch.ids) + model.positions(batch.packing.positions);  // (total, D)
  for (auto& block : model.blocks) h = packed_block(*block, h, batch.packing, attention);
  return model.loss(h, batch.targets);
}

}  // namespace tenfold
