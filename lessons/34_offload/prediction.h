#pragma once
// Peak, bytes over the link and time with activations, optimizer or parameters on the host, from a counted step
// without.

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "common/models/gpt_memory.h"
#include "settings.h"

namespace tenfold::inline lesson_34 {

/// Most bytes of a step of the baseline. AdamW has a second average that SGD with momentum has not.
inline int64_t most_bytes(const Trial& trial) { return gpt_most_bytes(trial) + parameter_bytes(gpt_options(trial)); }

/// Bytes of a buffer of HostPool for so many.
inline int64_t buffer_bytes(int64_t bytes) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes))); }

/// What a block saves for its backward and what of it leaves: for each token the inputs of its two norms (2 D), of its
/// four linear layers (7 D) and of GELU (4 D), and queries, keys and values (3 D). Attention's output is its
/// projection's input.
struct BlockActivations {
  BlockActivations(int64_t rows, int64_t width, int64_t heads)
      : small(4 * rows * (4 + heads)),
        big(64 * rows * width),
        on_host(5 * buffer_bytes(4 * rows * width) + buffer_bytes(12 * rows * width) +
                2 * buffer_bytes(16 * rows * width)) {}
  int64_t small;    ///< two norms' means and deviations, and attention's sum for each head: stay
  int64_t big;      ///< 16 numbers for each feature of each token: leave
  int64_t on_host;  ///< their buffers: five tensors of 1 number for each feature, one of 3 and two of 4
};

/// Bytes that leave in a step, and come back, by formula.
inline int64_t moved_bytes(int64_t layers, int64_t stay, const BlockActivations& block) {
  return std::max<int64_t>(0, layers - stay) * block.big;
}

/// What one step with activations on the host has on the device at its most. Going forwards, one block computes and
/// one leaves; going backwards, one computes and one comes. The last `stay` blocks are there all along.
inline int64_t peak_with_activations_away(const Counted& kept_here) {
  const GptBytes bytes(kept_here);
  const int64_t stay = std::min(kept_here.get(kStay), bytes.blocks);
  const BlockActivations block(bytes.rows, bytes.width, kept_here.get(gpt::kHeads));
  const int64_t leaves = bytes.block_kept - block.small;
  const int64_t at_work = kept_here.region("block.forward").largest_peak_bytes - bytes.block_kept;
  const bool any_leave = stay < bytes.blocks;
  const int64_t base = bytes.states + bytes.stream;
  int64_t peak = base + bytes.blocks * block.small + (stay + (any_leave ? 1 : 0)) * leaves + at_work;
  if (bytes.blocks > stay + 1) peak = std::max(peak, base + bytes.blocks * block.small + 2 * leaves + at_work);
  peak = std::max(peak, base + bytes.blocks * block.small + stay * leaves + bytes.head_most());
  int64_t gradients = bytes.other_gradients;
  for (int64_t i = bytes.blocks - 1; i >= 0; --i) {
    const int64_t here = i >= bytes.blocks - stay ? i - (bytes.blocks - stay) + 1 : 1;
    const int64_t coming = i > 0 && i - 1 < bytes.blocks - stay ? 1 : 0;
    peak = std::max(peak, base + (i + 1) * block.small + (here + coming) * leaves + bytes.block_working + gradients);
    gradients += bytes.block_gradients;
  }
  peak = std::max(peak, bytes.resting);
  // Without a second memory what left is still there, in the pool.
  if (kept_here.device.is_cpu()) peak += (bytes.blocks - stay) * block.on_host;
  return peak;
}

/// Seconds that a block's activations travel, each way. No number on a CPU, which has no link.
inline double seconds_away(const Counted& kept_here, const char* link) {
  const GptBytes bytes(kept_here);
  const BlockActivations block(bytes.rows, bytes.width, kept_here.get(gpt::kHeads));
  return static_cast<double>(bytes.block_kept - block.small) / kept_here.ceiling(link);
}

inline constexpr const char *kToHost = "cuda_d2h_pinned_bytes_per_s", *kToDevice = "cuda_h2d_pinned_bytes_per_s";

/// Autocast's types are not in the formulas.
inline bool has_autocast(const Counted& kept_here) { return kept_here.get(kPrecision) == "bfloat16"; }

/// A block that computes for as long as its neighbour travels costs nothing; what travels longer shows. Backward
/// computes twice as long as forward.
inline Prediction predict_activations(const Counted& kept_here) {
  if (has_autocast(kept_here)) return {};
  const int64_t largest = 4 * 4 * kept_here.get(gpt::kBatch) * kept_here.get(gpt::kLength) * kept_here.get(gpt::kWidth);
  if (largest < kept_here.get(kLeastBytes)) return {.peak_bytes = kept_here.peak_bytes};  // nothing leaves
  Prediction prediction{.peak_bytes = peak_with_activations_away(kept_here)};
  const double out = seconds_away(kept_here, kToHost), back = seconds_away(kept_here, kToDevice);
  const auto blocks = static_cast<double>(kept_here.get(gpt::kLayers));
  const double forward = kept_here.region("block.forward").seconds / blocks;
  const double shows = std::max(0.0, out - forward) + std::max(0.0, back - 2 * forward);
  const double leave = blocks - static_cast<double>(kept_here.get(kStay));
  prediction.speed_ratio = speed_with(kept_here, leave * shows);
  return prediction;
}

/// Recomputed blocks, of which the last `stay` keep their inputs on the device: the one that backward() is at is there
/// as a whole, with its input and that of the block before it.
inline int64_t peak_recomputed(const Counted& kept_here, int64_t stay) {
  const GptBytes bytes(kept_here);
  stay = std::min(stay, bytes.blocks);
  const int64_t away = bytes.blocks - stay;
  int64_t base = bytes.states + bytes.stream;
  // What left is still there, in the pool, and the random states are: a CPU has no second memory.
  if (kept_here.device.is_cpu())
    base += away * buffer_bytes(bytes.stream) +
            bytes.blocks * static_cast<int64_t>(at::detail::getDefaultCPUGenerator().get_state().nbytes());
  int64_t peak = std::max(bytes.resting, base + stay * bytes.stream + bytes.head_most());
  int64_t gradients = bytes.other_gradients;
  for (int64_t i = bytes.blocks - 1; i >= 0; --i) {
    const int64_t inputs = i >= away ? i - away + 1 + (away > 0 ? 1 : 0) : (i > 0 ? 2 : 1);
    peak = std::max(peak, base + inputs * bytes.stream + bytes.block_kept + bytes.block_working + gradients);
    gradients += bytes.block_gradients;
  }
  return peak;
}

/// Every block's forward once more. A block's input travels in a sixteenth of the time, which does not show.
inline Prediction predict_recomputed(const Counted& kept_here, int64_t stay) {
  if (has_autocast(kept_here)) return {};
  return {.speed_ratio = 1 / (1 + kept_here.share("block.forward")), .peak_bytes = peak_recomputed(kept_here, stay)};
}
inline Prediction predict_checkpointing(const Counted& kept_here) {
  return predict_recomputed(kept_here, kept_here.get(gpt::kLayers));
}
inline Prediction predict_inputs(const Counted& kept_here) {
  return predict_recomputed(kept_here, kept_here.get(kStay));
}

/// On one stream all of it shows.
inline Prediction predict_one_stream(const Counted& kept_here) {
  Prediction prediction{.peak_bytes = peak_with_activations_away(kept_here)};
  const double both = seconds_away(kept_here, kToHost) + seconds_away(kept_here, kToDevice);
  const auto leave = static_cast<double>(kept_here.get(gpt::kLayers) - kept_here.get(kStay));
  prediction.speed_ratio = speed_with(kept_here, leave * both);
  return prediction;
}

/// Bytes on the host, by formula: parameters, gradients and two averages, 16 for each parameter.
inline int64_t host_bytes(const Counted& on_device) { return 4 * on_device.parameter_bytes; }

/// The two averages are gone, 8 bytes for each parameter.
inline Prediction predict_optimizer_away(const Counted& on_device) {
  const int64_t device = std::max(on_device.parameter_bytes + on_device.region("loss").largest_peak_bytes,
                                  on_device.parameter_bytes + on_device.gradient_bytes);
  return {.peak_bytes = device + (on_device.device.is_cpu() ? host_bytes(on_device) : 0)};
}

/// The peak where gradients leave as they come, and the blocks' weights come and go if `weights_leave`. Going forwards
/// what blocks save adds up; going backwards it falls, and the gradients of one block are on their way.
inline int64_t peak_with_gradients_away(const Counted& on_device, bool weights_leave) {
  const GptBytes bytes(on_device);
  const int64_t block = bytes.block_gradients;  // as many bytes as its weights
  const int64_t weights = weights_leave
                              ? on_device.parameter_bytes - (bytes.blocks - std::min<int64_t>(2, bytes.blocks)) * block
                              : on_device.parameter_bytes;
  const int64_t base = weights + bytes.stream;
  int64_t peak = base + bytes.blocks * bytes.block_kept + bytes.head_most();
  for (int64_t i = bytes.blocks - 1; i >= 0; --i) {
    const int64_t leaving =
        i == bytes.blocks - 1 ? bytes.other_gradients / 2 : block;  // the head's, of head and tokens
    peak = std::max(peak, base + (i + 1) * bytes.block_kept + bytes.block_working + leaving);
  }
  return peak + (on_device.device.is_cpu() ? host_bytes(on_device) : 0);
}

inline Prediction predict_gradients_away(const Counted& on_device) {
  return {.peak_bytes = peak_with_gradients_away(on_device, false)};
}
inline Prediction predict_parameters_away(const Counted& on_device) {
  return {.peak_bytes = peak_with_gradients_away(on_device, true)};
}

}  // namespace tenfold::inline lesson_34
