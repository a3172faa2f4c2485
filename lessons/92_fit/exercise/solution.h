#pragma once
// A solution of exercise 92.
#include <algorithm>
#include <cstdint>

/// What a model needs. Parameters, gradients and AdamW's two averages are numbers of 4 bytes.
struct ModelSizes {
  int64_t parameters;  ///< how many
  int64_t layers;      ///< blocks
  // Bytes for each sequence that is processed at a time:
  int64_t input;   ///< of a block
  int64_t block;   ///< that a block keeps for backward(), its input not among them
  int64_t logits;  ///< of the head; backward() needs three arrays of this size
};

struct LeversPulled {
  int64_t micro_batches = 1;     ///< that the batch is divided into; their gradients are added
  bool checkpointing = false;    ///< a block keeps its input alone, and is recomputed in backward()
  bool eight_bit_adamw = false;  ///< two averages of 1 byte
  bool offload = false;          ///< the averages are on the host
};

/// Most bytes that a step has on the device at a time: the highest of three moments.
inline int64_t peak_bytes(const ModelSizes& model, int64_t batch, const LeversPulled& levers) {
  const int64_t sequences = batch / levers.micro_batches, all_gradients = 4 * model.parameters;
  const int64_t averages = levers.offload ? 0 : levers.eight_bit_adamw ? 2 * model.parameters : 8 * model.parameters;
  const int64_t always = 4 * model.parameters + averages;
  // From the second micro-batch on, the gradients of those before it are there.
  const int64_t gradients = levers.micro_batches > 1 ? all_gradients : 0;
  const int64_t kept = model.layers * (model.input + (levers.checkpointing ? 0 : model.block));
  const int64_t at_the_loss = always + gradients + sequences * (kept + 3 * model.logits);
  const int64_t recomputed = levers.checkpointing ? model.block : 0;
  const int64_t in_the_last_block = always + gradients + sequences * (kept + recomputed);
  const int64_t in_the_update = always + all_gradients;
  return std::max({at_the_loss, in_the_last_block, in_the_update});
}
