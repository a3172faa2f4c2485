#pragma once
// What lesson 57 counts besides steps: what a checkpoint costs and how often it pays, and how long it takes until a
// lost rank is noticed and named.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "background_checkpoint.h"
#include "checkpoint_interval.h"
#include "common/base/seconds_since.h"
#include "common/harness/lesson.h"
#include "common/ranks/rank_threads.h"
#include "common/result/statistics.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "monitored_barrier.h"
#include "saved_training.h"

namespace tenfold::inline lesson_57 {

/// Hours between two unexpected interruptions of Llama 3's training on 16,384 H100: 419 in 54 days.
/// Source: The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.4.
inline constexpr double kLlama3Hours = 54.0 * 24 / 419;

/// Notes the seconds that training stands still for one checkpoint, the median of a few, its size, and for some mean
/// times between failures the best interval and what is lost with it.
inline void note_interval(const Trial& trial, bool in_background) {
  SharedFolder folder(trial);
  SavedTraining training(trial);
  training.update();  // now the optimizer has a state
  const CheckpointFolder files = folder.checkpoints();
  BackgroundCheckpoints background(files);
  std::vector<double> seconds;
  for (int64_t step = 0; step < 9; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    in_background ? background.save(step, training.state()) : files.save(step, training.state());
    seconds.push_back(seconds_since(begin));
    background.finish();  // training goes on meanwhile: not counted
  }
  const double pause = median(seconds);
  trial.note("training stands still", pause, "s");
  trial.note("file", static_cast<double>(std::filesystem::file_size(files.file_of(8))), "bytes");
  for (const auto& [name, hours] :
       {std::pair{"a failure every 30 days", 30 * 24.0}, {"every day", 24.0}, {"every 3.1 hours", kLlama3Hours}}) {
    const double interval = best_interval(pause, 3600 * hours);
    trial.note(std::string(name) + ", best interval", interval, "s");
    trial.note(std::string(name) + ", lost", 100 * lost_part(interval, pause, 3600 * hours), "%");
  }
}
inline void foreground_interval(const Trial& trial) { note_interval(trial, /*in_background=*/false); }
inline void background_interval(const Trial& trial) { note_interval(trial, /*in_background=*/true); }

/// A training whose size and machines are given, by formula.
struct AtScale {
  double parameters, bytes_per_s, between_failures_s;
};
/// 16,384 GPUs, on storage that takes 2 TB/s (the same source, section 3.3.1).
inline constexpr AtScale kLlama3 = {405e9, 2e12, 3600 * kLlama3Hours};
/// 8 GPUs of a node that fail as often each, and write 2 GB/s each.
inline constexpr AtScale kOneNode = {8e9, 8 * 2e9, 3600 * kLlama3Hours * 16384 / 8};

/// Nobody has measured this here: that the failure is found after a minute and that the restart takes ten is assumed.
inline void note_at_scale(const Trial& trial, const AtScale& of) {
  constexpr double kBytesOfParameter = 16, kDetect = 60, kRestart = 600;
  const double state = kBytesOfParameter * of.parameters, pause = state / of.bytes_per_s;
  const double between = of.between_failures_s, interval = best_interval(pause, between);
  trial.note("state", state, "bytes");
  trial.note("training stands still", pause, "s");
  trial.note("between two failures", between / 3600, "hours");
  trial.note("best interval", interval / 60, "minutes");
  trial.note("lost", 100 * lost_part(interval, pause, between, kDetect, kRestart), "%");
  trial.note("of it by detecting and starting again", 100 * (kDetect + kRestart) / between, "%");
}
inline void one_node(const Trial& trial) { note_at_scale(trial, kOneNode); }
inline void llama_3(const Trial& trial) { note_at_scale(trial, kLlama3); }

/// One of three ranks, which are threads, does not come to an all-reduce: it has ended, or it hangs. Notes after how
/// many seconds rank 0's all-reduce fails and after how many it knows the other's name.
inline void note_detection(const Trial& trial, bool hangs) {
  constexpr int kRanks = 3, kLost = 2;
  constexpr std::chrono::milliseconds kTimeout(1000), kWait(300);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int> done = 0;
  double noticed = 0, named = 0;
  std::vector<int> missing;
  on_rank_threads(kRanks, kTimeout, [&](int rank, const auto& group) {
    start_all_reduce(torch::ones({1}), *group)->wait();  // all are there
    if (rank == kLost) {
      while (hangs && done < kRanks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;  // its connections close
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
      start_all_reduce(torch::ones({1 << 16}), *group)->wait();
    } catch (const std::exception&) {
      if (rank == 0) noticed = seconds_since(begin);
      const auto names = missing_ranks(*store, "after the failure", rank, kRanks, kWait);
      if (rank == 0) named = seconds_since(begin), missing = names;
    }
    ++done;
  });
  TORCH_CHECK(missing == std::vector<int>{kLost}, "another rank than the lost one was named");
  trial.note("noticed after", noticed, "s");
  trial.note("named after", named, "s");
}
inline void rank_ends(const Trial& trial) { note_detection(trial, /*hangs=*/false); }
inline void rank_hangs(const Trial& trial) { note_detection(trial, /*hangs=*/true); }

}  // namespace tenfold::inline lesson_57
