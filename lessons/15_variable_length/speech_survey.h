#pragma once
// Survey "all speeches" of lesson 15: padding when every speech comes once, in random batches.

#include <algorithm>
#include <vector>

#include "common/harness/lesson.h"
#include "lessons/10_parallel_loading/epoch_plan.h"
#include "speech_training.h"
#include "step_work.h"

namespace tenfold::inline lesson_15 {

/// Notes how much of a plan's rows and pairs is real.
inline void note_all_speeches(const Trial& trial, Plan plan) {
  const SpeechSettings settings = speech_settings(trial);
  const PlanSettings plan_settings{SpeechBatches(settings, trial.seed).longest_of_all(), trial.get(kBuckets)};
  const auto speeches = encoded_speeches(settings.encoding);
  const std::vector<TextIds>& all = speeches->texts;
  double rows = 0, real_rows = 0, pairs = 0, real_pairs = 0;
  std::vector<TextIds> batch;
  size_t left = all.size();
  for (const int64_t i : epoch_order(static_cast<int64_t>(all.size()), trial.seed, /*epoch=*/0, /*shuffle=*/true)) {
    const TextIds text = all[static_cast<size_t>(i)];
    batch.push_back(text.first(std::min(text.size(), static_cast<size_t>(settings.context) + 1)));
    if (--left > 0 && static_cast<int64_t>(batch.size()) < settings.batch) continue;
    const StepWork padded = padded_work(batch, plan, plan_settings);
    const StepWork real = packed_work(batch);
    rows += padded.rows;
    real_rows += real.rows;
    pairs += padded.pairs;
    real_pairs += real.pairs;
    batch.clear();
  }
  trial.note("real tokens", 100 * real_rows / rows, "%");
  trial.note("real pairs of attention", 100 * real_pairs / pairs, "%");
}

inline void count_to_batch(const Trial& trial) { note_all_speeches(trial, pad_to_batch); }
inline void count_buckets(const Trial& trial) { note_all_speeches(trial, pad_in_buckets); }
inline void count_to_data_set(const Trial& trial) { note_all_speeches(trial, pad_to_data_set); }

}  // namespace tenfold::inline lesson_15
