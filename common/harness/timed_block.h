#pragma once
// A block of steps, timed, and how many steps it should have.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/clock.h"
#include "common/ranks/process_group.h"

namespace tenfold {

/// Runs `steps` calls where the variant runs them, and times them there; wall and device are the slowest rank's. Losses
/// are read after the clocks have stopped.
TimedSteps run_steps(const World& world, torch::Device device, const Step& step, int64_t steps);

/// The times of run_steps(). A loss that is not finite throws NotFinite, on every rank.
Times timed_block(const World& world, torch::Device device, const Step& step, int64_t steps);

/// What the length of a variant's blocks is chosen from.
struct StepCost {
  double seconds = 0;         ///< of a step
  int64_t items = 0;          ///< of a step
  double overhead = 0;        ///< of a block without steps: threads woken and parked, barriers of ranks
  bool threads = false;       ///< the variant has some of its own
  int64_t batches_ahead = 0;  ///< that they may have ready
};

/// Steps in a block of each variant. One step or `block_seconds`, whichever is longer; longer where a block's overhead
/// would be more than 1 % of it; more steps than batches that its threads may have ready. On a device, whose launches
/// run ahead, at least 50 ms, and three steps of less than that. Where threads are at work, all blocks last as long as
/// the longest one: a short block gives its variant what the others pay for. Steps that last about as long as the first
/// variant's, the baseline's, get as many in a block: identical code runs identical blocks. `block_seconds` 0: one step
/// each.
std::vector<int64_t> block_steps(const std::vector<StepCost>& costs, double block_seconds, bool on_device);

}  // namespace tenfold
