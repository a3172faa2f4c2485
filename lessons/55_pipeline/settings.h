#pragma once
// The settings that lesson 55 has besides the GPT's: its variants and their predictions read them.

#include <algorithm>
#include <cstdint>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "pipeline_schedule.h"

namespace tenfold::inline lesson_55 {

inline constexpr Setting<int64_t> kMicroBatches{"micro_batches", 4, "micro-batches that a batch is processed in"};
inline constexpr Setting<int64_t> kVirtualStages{"virtual_stages", 2, "stages of a rank in interleaved 1F1B"};
inline constexpr Setting<bool> kTied{"tied", false, "whether the head's weight is the embedding's"};

/// Throws c10::ValueError unless the batch can be divided into its micro-batches.
inline int micro_batches_of(const Trial& trial) {
  const int64_t batch = trial.get(gpt::kBatch), micro_batches = trial.get(kMicroBatches);
  TORCH_CHECK_VALUE(batch % micro_batches == 0, "batch=", batch, " is not divisible by micro_batches=", micro_batches);
  return static_cast<int>(micro_batches);
}

/// The model's blocks that a stage has, from `begin` to before `end`. Those that are left over go to the first stages:
/// the last one computes the head besides.
struct BlockRange {
  int64_t begin = 0, end = 0;
};
inline BlockRange blocks_of(int64_t layers, int stage, int stages) {
  const int64_t each = layers / stages, more = layers % stages;
  const int64_t begin = stage * each + std::min<int64_t>(stage, more);
  return {begin, begin + each + (stage < more ? 1 : 0)};
}

/// One micro-batch's activations and gradients in a step of the whole model, with gradients that stay from one to the
/// next, and the whole batch of ids.
inline int64_t most_bytes(const Trial& trial) {
  GptOptions options = gpt_options(trial);
  const int64_t ids = 2 * 8 * options.batch * options.length;
  options.batch = std::max<int64_t>(1, options.batch / trial.get(kMicroBatches));
  return step_peak_bytes(options) + parameter_bytes(options) + ids;
}

}  // namespace tenfold::inline lesson_55
