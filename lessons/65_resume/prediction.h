#pragma once
// Peaks of a training that is saved, from a step of one that is not; and the most that a step needs, by formula.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "settings.h"

namespace tenfold::inline lesson_65 {

/// Of a loader, on the host: one batch that training has and those that are ready or under way.
inline int64_t loader_bytes(int64_t batch, int64_t sample_bytes) { return (kPrefetch + 1) * batch * sample_bytes; }

/// The file is written from where the tensors are, or from the host's copy of one tensor after the other: no bytes of
/// the device, and no tensors on a CPU.
inline Prediction predict_saving(const Counted& plain) { return {.peak_bytes = plain.peak_bytes}; }

/// On a CPU a copy of all that is saved stays next to it; of a GPU's tensors it is in the host's memory. `parameters`
/// of the step are what training changes; momentum has the parameters' size, and a sharded rank's averages twice.
inline Prediction predict_asynchronous(const Counted& plain) {
  if (!plain.device.is_cpu()) return {.peak_bytes = plain.peak_bytes};
  constexpr int64_t kGenerator = 5056, kNumbers = 160;  // of the CPU's generator; counters, rates, scale, place
  const bool sharded = plain.workload == gpt_workload;
  const int64_t statistics = sharded ? 0 : 4 * 6 * plain.get(convnet::kChannels);  // are saved once
  const int64_t states = (sharded ? 3 : 2) * plain.parameter_bytes - statistics;
  return {.peak_bytes = plain.peak_bytes + states + kGenerator + kNumbers};
}

/// The convnet's own, to which come: the first convolution's result, which batch normalisation keeps; what dropout
/// keeps; and on a CPU the loader's batches.
inline int64_t images_most_bytes(const Trial& trial) {
  const ConvNetOptions options = convnet_options(trial);
  const int64_t batch = trial.get(convnet::kBatch), side = options.side;
  const int64_t output = 4 * batch * options.channels * side * side;
  const int64_t features = 2 * options.channels * side * side / 16;
  const int64_t loader = trial.device.is_cpu() ? loader_bytes(batch, side * side + 8) : 0;
  return step_peak_bytes(options, batch, trial.device) + output + 2 * 4 * batch * features + loader;
}

/// Of one rank that has all shards: to the workload's formula, which has one momentum, come AdamW's second average, the
/// two temporaries of the largest unit's update and, on a CPU, the loader's batches.
inline int64_t sharded_most_bytes(const Trial& trial) {
  const GptOptions options = gpt_options(trial);
  const int64_t largest = std::max(block_parameter_bytes(options.width), 4 * options.width * options.vocabulary());
  const int64_t loader = trial.device.is_cpu() ? loader_bytes(options.batch, 2 * 8 * options.length) : 0;
  return step_peak_bytes(options) + parameter_bytes(options) + 3 * largest + loader;
}

inline int64_t most_bytes_of(const Trial& trial) {
  return trial.workload == gpt_workload ? sharded_most_bytes(trial) : images_most_bytes(trial);
}

}  // namespace tenfold::inline lesson_65
