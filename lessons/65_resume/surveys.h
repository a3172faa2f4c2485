#pragma once
// What lesson 65 counts besides steps: how long training stands still for a checkpoint, and what becomes of runs that
// are killed.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "kills.h"
#include "saved_training.h"

namespace tenfold::inline lesson_65 {

/// Notes the seconds that training stands still for one checkpoint, the median of a few, and the size of its file.
inline void note_pause(const Trial& trial, bool asynchronous) {
  SavedRun run(trial);
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    run.training->update();
    const int64_t updates = run.training->updates();
    run.training->park(true);
    const auto begin = std::chrono::steady_clock::now();
    if (asynchronous) {
      run.background.save(updates, run.training->state());
    } else {
      run.checkpoints.own().save(updates, run.training->state());
    }
    seconds.push_back(seconds_since(begin));
    run.background.finish();  // training goes on meanwhile: not counted
    run.training->park(false);
  }
  std::sort(seconds.begin(), seconds.end());
  trial.note("training stands still", seconds[seconds.size() / 2], "s");
  const auto file = run.checkpoints.own().file_of(run.training->updates());
  trial.note("file", static_cast<double>(std::filesystem::file_size(file)), "bytes");
}
inline void pause_of_saving(const Trial& trial) { note_pause(trial, /*asynchronous=*/false); }
inline void pause_of_asynchronous(const Trial& trial) { note_pause(trial, /*asynchronous=*/true); }

inline void note_kills(const Trial& trial, bool asynchronous) {
  if (trial.device.is_cuda()) trial.skip("a process that has used CUDA cannot be forked");
  constexpr int64_t kUpdates = 24;
  // The training's, which children alone read: this process would not know of it.
  trial.get(kEvery), trial.get(kScale), trial.get(kGrowth);
  trial.get(convnet::kBatch), trial.get(convnet::kChannels), trial.get(convnet::kLearningRate);
  const Kills kills = kill_and_resume(trial, trial.get(kKills), kUpdates, asynchronous);
  trial.note("killed", static_cast<double>(kills.killed), "processes");
  trial.note("killed while a file was written", static_cast<double>(kills.while_writing), "processes");
  trial.note("earliest kill after", static_cast<double>(kills.earliest), "updates");
  trial.note("latest kill after", static_cast<double>(kills.latest), "updates");
  trial.note("resumed bit for bit", static_cast<double>(kills.bit_equal), "processes");
  trial.note("lost a safe checkpoint", static_cast<double>(kills.lost), "processes");
  trial.note("updates made twice", static_cast<double>(kills.repeated) / static_cast<double>(kills.killed), "a kill");
  trial.note("an undisturbed run", kills.seconds, "s");
  TORCH_CHECK(kills.bit_equal == kills.killed && kills.lost == 0, "of ", kills.killed, " killed runs ", kills.bit_equal,
              " resumed bit for bit, and ", kills.lost, " lost a checkpoint");
}
inline void kills_of_saving(const Trial& trial) { note_kills(trial, /*asynchronous=*/false); }
inline void kills_of_asynchronous(const Trial& trial) { note_kills(trial, /*asynchronous=*/true); }

}  // namespace tenfold::inline lesson_65
