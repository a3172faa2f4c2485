#pragma once
// What a forward pass with layers of 8 bits should need, from a counted one in 32 bits; and what that one needs at
// most.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt_memory.h"
#include "dynamic_int8_linear.h"
#include "settings.h"

namespace tenfold::inline lesson_35 {

struct LinearShape {
  int64_t outputs, inputs;
  int64_t values() const { return outputs * inputs; }
};

/// Of a GPT's linear layers: four of each block, the head last.
inline std::vector<LinearShape> gpt_linears(int64_t layers, int64_t width, int64_t vocabulary) {
  std::vector<LinearShape> all;
  for (int64_t block = 0; block < layers; ++block)
    all.insert(all.end(), {{3 * width, width}, {width, width}, {4 * width, width}, {width, 4 * width}});
  all.push_back({vocabulary, width});
  return all;
}

/// Of a convnet the one behind its convolutions.
inline std::vector<LinearShape> convnet_linears(const ConvNetOptions& options) {
  return {{options.classes, 2 * options.channels * (options.side / 4) * (options.side / 4)}};
}

inline int64_t bytes_in_32_bits(const std::vector<LinearShape>& linears) {
  int64_t bytes = 0;
  for (const LinearShape& linear : linears) bytes += 4 * linear.values();
  return bytes;
}

/// A byte for each weight, and a scale for each row.
inline int64_t bytes_in_8_bits(const std::vector<LinearShape>& linears) {
  int64_t bytes = 0;
  for (const LinearShape& linear : linears) bytes += linear.values() + 4 * linear.outputs;
  return bytes;
}

inline int64_t bytes_packed(const std::vector<LinearShape>& linears) {
  int64_t bytes = 0;
  for (const LinearShape& linear : linears) bytes += packed_bytes(linear.outputs, linear.inputs);
  return bytes;
}

inline std::vector<LinearShape> linears_of(const Counted& counted) {
  if (counted.workload == gpt_workload) {
    const GptOptions options = gpt_options(counted);
    return gpt_linears(options.layers, options.width, options.vocabulary());
  }
  return convnet_linears({.channels = counted.get(convnet::kChannels)});
}

inline bool reads_one_token(const Counted& counted) {
  return counted.workload == gpt_workload && counted.get(gpt::kBatch) * counted.get(gpt::kLength) == 1;
}

/// Rows of activations that a GPT has at a time, one for each token, and their sizes.
struct Activations {
  int64_t rows, width, vocabulary;
};

/// Most bytes of activations while the GPT runs forward, and what a linear layer needs besides its result.
inline int64_t most_activations(const Activations& sizes, auto besides) {
  const auto [rows, width, vocabulary] = sizes;
  const int64_t stream = 4 * rows * width, logits = 4 * rows * vocabulary;
  // A block's variables live until it returns: its input, queries, keys and values, what attention gave, the residual
  // sum and the norm's result are 7 streams; the inner layer is 4 before GELU, and 4 after it.
  const int64_t up = 11 * stream + besides(LinearShape{4 * width, width}, rows);
  const int64_t down = 16 * stream + besides(LinearShape{width, 4 * width}, rows);
  const int64_t head = 2 * stream + logits + besides(LinearShape{vocabulary, width}, rows);
  const int64_t loss = 2 * logits;  // and the logarithms of the probabilities
  return std::max({up, down, head, loss});
}

inline int64_t nothing_besides(const LinearShape& /*linear*/, int64_t /*rows*/) { return 0; }

/// With weights of so many bytes, and layers that need something besides.
inline Prediction peak_with(const Counted& counted, int64_t weights, auto besides) {
  int64_t peak = counted.peak_bytes - bytes_in_32_bits(linears_of(counted)) + weights;
  if (counted.workload == gpt_workload) {  // the convnet's peak is at its convolutions
    const GptOptions options = gpt_options(counted);
    const Activations sizes{options.batch * options.length, options.width, options.vocabulary()};
    peak += most_activations(sizes, besides) - most_activations(sizes, nothing_besides);
  }
  return {.peak_bytes = peak};
}

/// Weights of 16 bits: a layer's activations in 16 bits. On a GPU a product for one token is as much faster as fewer
/// bytes are read; a CPU may have no such product.
inline Prediction predict_bf16_weights(const Counted& counted) {
  const std::vector<LinearShape> linears = linears_of(counted);
  Prediction prediction =
      peak_with(counted, bytes_in_32_bits(linears) / 2,
                [](const LinearShape& linear, int64_t rows) { return 2 * rows * (linear.inputs + linear.outputs); });
  if (counted.device.is_cuda() && reads_one_token(counted)) prediction.speed_ratio = 2;
  return prediction;
}

/// Weights of 8 bits: some rows of a weight in 32 bits, and their part of the result.
inline Prediction predict_weight_only(const Counted& counted) {
  const int64_t at_a_time = counted.get(kRowsAtATime);
  return peak_with(counted, bytes_in_8_bits(linears_of(counted)), [&](const LinearShape& linear, int64_t rows) {
    const int64_t count = std::min(at_a_time, linear.outputs);
    return 4 * count * (linear.inputs + rows);
  });
}

/// Weights of 8 bits by one kernel: a layer's activations and its scales in 16 bits. Speed for one token on a CPU: as
/// much faster as fewer bytes are read.
inline Prediction predict_one_kernel(const Counted& counted) {
  const std::vector<LinearShape> linears = linears_of(counted);
  const int64_t codes = bytes_in_8_bits(linears);
  const int64_t value = counted.device.is_cuda() ? 0 : 2;  // on CUDA everything has its type already
  Prediction prediction = peak_with(counted, codes, [value](const LinearShape& linear, int64_t rows) {
    return value * (rows * (linear.inputs + linear.outputs) + linear.outputs);
  });
  if (counted.device.is_cpu() && reads_one_token(counted))
    prediction.speed_ratio = static_cast<double>(bytes_in_32_bits(linears)) / static_cast<double>(codes);
  return prediction;
}

/// Dynamic int8: the packed weights, wherever they are, and the sums of a layer's products as integers of 32 bits.
/// Speed for one token, which reads each weight once for one product: as much faster as fewer bytes are read. For more
/// tokens arithmetic counts as well, and of products of integers no ceiling is known.
inline Prediction predict_dynamic_int8(const Counted& counted) {
  const std::vector<LinearShape> linears = linears_of(counted);
  const int64_t packed = bytes_packed(linears);
  Prediction prediction =
      peak_with(counted, packed, [](const LinearShape& linear, int64_t rows) { return 4 * rows * linear.outputs; });
  if (reads_one_token(counted))
    prediction.speed_ratio = static_cast<double>(bytes_in_32_bits(linears)) / static_cast<double>(packed);
  return prediction;
}

/// Of the baseline's forward pass, with the outputs that are kept of four.
inline int64_t inference_most_bytes(const Trial& trial) {
  constexpr int64_t kKept = 4 * 16;
  if (trial.workload == gpt_workload) {
    const GptOptions options = gpt_options(trial);
    const int64_t rows = options.batch * options.length;
    const int64_t inputs = 2 * 8 * rows, attention = 4 * rows * options.heads;
    return parameter_bytes(options) + inputs + attention + 4 * kKept * options.vocabulary() +
           most_activations({rows, options.width, options.vocabulary()}, nothing_besides);
  }
  // At the second convolution: the result of the first ReLU, for oneDNN once more in blocks, and half of that behind.
  const ConvNetOptions options = convnet_options(trial);
  const int64_t batch = trial.get(convnet::kBatch), pixels = options.side * options.side;
  const int64_t convolutions = 4 * 2 * options.channels * (9 * options.channels + 1) + 4 * 10 * options.channels;
  return bytes_in_32_bits(convnet_linears(options)) + convolutions + batch * (2 * 4 * pixels + 8) + 4 * kKept * 10 +
         4 * batch * options.channels * pixels * 5 / 2;
}

}  // namespace tenfold::inline lesson_35
