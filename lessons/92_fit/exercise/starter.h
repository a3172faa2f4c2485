#pragma once
// Your answer to exercise 92. Build and check it with: ./tenfold exercise 92
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
  // Hint: at the loss, in the backward of the last block, in the update: what is there at each? Not everything at once.
  const int64_t kept = model.layers * (model.input + (levers.checkpointing ? 0 : model.block));
  const int64_t states = 16 * model.parameters - (levers.eight_bit_adamw ? 6 * model.parameters : 0);
  return (states + batch * (kept + 3 * model.logits)) / levers.micro_batches;
}
