#pragma once
// The bytes of a training step's highest moment, kind by kind, from the model's sizes alone.

#include <algorithm>

#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "memory_kinds.h"

namespace tenfold::inline lesson_03 {

inline constexpr Setting<std::string> kOptimizer{
    "optimizer", "momentum", "of the surveys", {"sgd", "momentum", "adamw"}};

/// Numbers of optimizer state for each parameter: a momentum; AdamW's mean and mean square of the gradients.
inline int64_t state_numbers(const std::string& optimizer) {
  return optimizer == "adamw" ? 2 : optimizer == "momentum" ? 1 : 0;
}

class ByFormula {
 public:
  ByFormula& add(MemoryKind kind, int64_t bytes) {
    moment_.bytes[static_cast<size_t>(kind)] += bytes;
    return *this;
  }
  const MemoryMoment& moment() const { return moment_; }

 private:
  MemoryMoment moment_;
};

/// A GPT's, at the loss: every block has kept its activations, the loss's backward makes two arrays of the logits' size
/// beside their logarithms, and no gradient of a parameter exists yet. 32-bit numbers, ids of 64 bits.
inline MemoryMoment gpt_peak(const GptOptions& options, const std::string& optimizer) {
  const int64_t rows = options.batch * options.length;
  const int64_t stream = 4 * rows * options.width;  // (B, T, D)
  const int64_t logits = 4 * rows * options.vocabulary();
  const int64_t block = 16 * stream + 4 * rows * (4 + options.heads);  // docs/where_time_and_memory_go.md
  const int64_t last_norm = stream + 2 * 4 * rows;
  return ByFormula()
      .add(MemoryKind::parameters, parameter_bytes(options))
      .add(MemoryKind::optimizer_state, state_numbers(optimizer) * parameter_bytes(options))
      .add(MemoryKind::inputs, 2 * 8 * rows)
      .add(MemoryKind::activations, stream + options.layers * block + last_norm + logits)
      .add(MemoryKind::temporary, 2 * logits)
      .moment();
}

/// The surveys' convnet; the lesson's settings are the GPT's.
inline ConvNetOptions convnet_of(Size size) { return {.channels = convnet::kChannels.value.at(size)}; }

/// A convnet's, in the backward of its second convolution: its input and its result's gradient, and its input's
/// gradient three times (oneDNN's blocks, a plain tensor, a copy of that); or, on CUDA, in the backward of the first
/// ReLU. The head's gradients are there, on CUDA the second convolution's, too.
inline MemoryMoment convnet_peak(const ConvNetOptions& options, int64_t batch, const std::string& optimizer,
                                 torch::Device device) {
  const int64_t channels = options.channels, side = options.side;
  const int64_t conv1 = 4 * channels * (9 * options.colours + 1);
  const int64_t conv2 = 4 * 2 * channels * (9 * channels + 1);
  const int64_t head = 4 * (2 * channels * (side / 4) * (side / 4) + 1) * options.classes;
  const int64_t output = 4 * batch * channels * side * side;  // of the first convolution; the second's has half of it
  const int64_t in_blocks = 4 * batch * (channels % 8 == 0 ? channels : (channels + 15) / 16 * 16) * side * side;
  const bool at_convolution = device.is_cpu();
  return ByFormula()
      .add(MemoryKind::parameters, conv1 + conv2 + head)
      .add(MemoryKind::optimizer_state, state_numbers(optimizer) * (conv1 + conv2 + head))
      .add(MemoryKind::gradients, head + (at_convolution ? 0 : conv2))
      .add(MemoryKind::inputs, batch * (4 * options.colours * side * side + 8))
      .add(MemoryKind::activations, output)
      .add(MemoryKind::temporary, at_convolution ? output / 2 + in_blocks + 2 * output : 2 * output)
      .moment();
}

}  // namespace tenfold::inline lesson_03
