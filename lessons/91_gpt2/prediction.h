#pragma once
// What a stack of techniques should leave of the step's memory. Its speed is not predicted: that is each technique's
// own lesson. The FLOP of a step, which the share of the peak rests on, stand in bytes_by_formula.h.

#include <cstdint>
#include <functional>

#include "bytes_by_formula.h"
#include "common/harness/lesson.h"

namespace tenfold::inline lesson_91 {

/// From the sizes alone: nothing that was counted on the baseline is needed.
inline std::function<Prediction(const Counted&)> by_formula(const Techniques& techniques) {
  return [techniques](const Counted& plain) {
    const StepSizes sizes{.model = {.layers = plain.get(gpt2::kLayers),
                                    .heads = plain.get(gpt2::kHeads),
                                    .width = plain.get(gpt2::kWidth),
                                    .length = plain.get(gpt2::kLength),
                                    .vocabulary = vocabulary_size(encoding_named(plain.get(gpt2::kTokens)))},
                          .batch = plain.get(gpt2::kBatch),
                          .pad_to = plain.get(kPadTo),
                          .micro_batches = plain.get(kMicroBatches)};
    return Prediction{.peak_bytes = step_peak_bytes(sizes, techniques)};
  };
}

inline int64_t plain_most_bytes(const Trial& trial) {
  return step_peak_bytes({.model = gpt2_options(trial), .batch = trial.get(gpt2::kBatch)}, {});
}

inline const Workload gpt2_workload{
    .name = "gpt",  // of its kind: another module of the same sizes
    .items = "tokens",
    .settings = {gpt2::kLayers, gpt2::kWidth, gpt2::kHeads, gpt2::kLength, gpt2::kBatch, gpt2::kTokens},
    .most_bytes = plain_most_bytes};

}  // namespace tenfold::inline lesson_91
