#pragma once
// A training with the folder that its checkpoints are in: not saved, saved while it waits, or saved by a thread.

#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "lessons/57_faults/background_checkpoint.h"
#include "lessons/57_faults/saved_training.h"
#include "rank_checkpoints.h"
#include "sharded_training.h"

namespace tenfold::inline lesson_65 {

/// Its members end in the order that a writing thread needs: the thread, then the folder.
struct SavedRun {
  explicit SavedRun(const Trial& trial)
      : folder(trial),
        checkpoints(folder.path(), trial.rank, trial.world_size),
        training(training_of(trial)),
        background(checkpoints.own()) {}

  SharedFolder folder;  ///< temporary; all ranks of this machine know it
  RankCheckpoints checkpoints;
  std::unique_ptr<Resumable> training;
  BackgroundCheckpoints background;
};

/// A step of the harness from `every` updates and what is done after them.
template <class After>
Step step_of(const Trial& trial, const std::shared_ptr<SavedRun>& run, const After& after) {
  const int64_t every = trial.get(kEvery);
  auto updates = [run, every, after] {
    torch::Tensor loss = run->training->update(every);
    after(*run);
    return loss;
  };
  const auto park = [run](bool parked) {
    run->training->park(parked);
    if (parked) run->background.finish();  // what is still to be written belongs to these steps
  };
  return {.items = every * run->training->items(),
          .parameters = run->training->parameters(),
          .update = updates,
          .park = park,
          .batches_ahead = kPrefetch,
          .gather = [run] { return run->training->whole(); }};
}

}  // namespace tenfold::inline lesson_65
