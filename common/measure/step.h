#pragma once
// A variant that is ready to train.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/measure/clock.h"

namespace tenfold {

using Parameters = torch::OrderedDict<std::string, torch::Tensor>;

/// The whole of what the ranks keep in parts, as the baseline names it. A gradient is undefined before the first
/// update.
struct Gathered {
  Parameters parameters, gradients;
};

/// Some steps in a row: what they took, and the losses that were there.
struct TimedSteps {
  Times times;
  std::vector<double> losses;
};

/// A built variant, ready to train.
struct Step {
  int64_t items = 0;                     ///< work of one update, of all ranks together: images, tokens
  Parameters parameters = Parameters();  ///< what training changes; compared by the agreement check
  /// Trains one update and returns its loss (a scalar, not synchronised). Afterwards the update's gradients are still
  /// in the parameters' .grad(): unscaled, averaged over micro-batches and ranks, as the optimizer saw them. On many
  /// ranks the loss is this rank's; undefined means "this rank has none".
  std::function<torch::Tensor()> update;
  /// For a variant with threads of its own, such as a loader's: true stops them, false lets them go on. Called at the
  /// ends of each timed block, inside the clock, so that they neither disturb other variants' blocks nor work ahead for
  /// nothing.
  std::function<void(bool)> park = nullptr;
  int64_t batches_ahead = 0;  ///< that its threads may have ready: a timed block has more steps
  /// For a variant that keeps parts of its parameters on each rank: collects the whole, on every rank, under the
  /// baseline's names, in any order. Called by the agreement check before the first update, after it and after the
  /// last, never in a timed block; what it sends is not counted. `parameters` are then this rank's parts.
  std::function<Gathered()> gather = nullptr;
  /// For a variant whose steps run in another process: runs so many of them there, in a row, and times them there.
  /// `park` is then that process's own affair, and says only that there is something to park.
  std::function<TimedSteps(int64_t)> run_remotely = nullptr;
};

}  // namespace tenfold
