#include "common/harness/timed_block.h"

#include <algorithm>
#include <cmath>

#include "common/base/all_finite.h"
#include "common/harness/passes.h"
#include "common/measure/dry.h"

namespace tenfold {
namespace {

constexpr double kMostOverhead = 0.01;  // of a block: switching, waking threads and barriers stay below it
constexpr double kLongestBlock = 1;     // seconds that a block may grow to for their sake
constexpr double kDeviceBlock = 0.05;   // seconds
constexpr int64_t kDeviceSteps = 3;     // of those that are shorter than such a block
constexpr double kAlike = 1.25;  // as far apart may the measured costs of steps be that are taken for equally long

/// Ranks meet at the wall's clock; each dry GPU has one of its own, which goes to the latest.
void meet(const World& world) {
  world.barrier();
  if (const DryTimes times = dry_times(); times.modelled && world.group) dry_wait_until(world.max(times.now));
}

}  // namespace

TimedSteps run_steps(const World& world, torch::Device device, const Step& step, int64_t steps) {
  if (step.run_remotely) return step.run_remotely(steps);
  std::vector<torch::Tensor> losses;
  losses.reserve(static_cast<size_t>(steps));
  meet(world);
  TimedSteps timed;
  timed.times = take_times(device, [&] {
    if (step.park) step.park(false);
    for (int64_t i = 0; i < steps; ++i) {
      const torch::Tensor loss = step.update();
      // Detached at once: a kept loss would keep its step's graph.
      if (loss.defined()) losses.push_back(loss.detach());
    }
    // The ranks' slowest counts: without this, rank 0 could finish while others still work.
    world.barrier();
    if (step.park) step.park(true);
  });
  timed.times.wall = world.max(timed.times.wall);
  timed.times.device = world.max(timed.times.device);
  for (const torch::Tensor& loss : losses) timed.losses.push_back(loss.item<double>());
  return timed;
}

Times timed_block(const World& world, torch::Device device, const Step& step, int64_t steps) {
  const TimedSteps timed = run_steps(world, device, step, steps);
  if (memory_only()) return timed.times;  // its losses are none
  // A rank that threw alone would leave the others in the next collective.
  if (world.max(all_finite(timed.losses) ? 0 : 1) > 0)
    throw NotFinite("the loss became NaN or infinite while it was timed");
  return timed.times;
}

std::vector<int64_t> block_steps(const std::vector<StepCost>& costs, double block_seconds, bool on_device) {
  std::vector<int64_t> steps(costs.size(), 1);
  if (block_seconds <= 0 || costs.empty()) return steps;
  bool equally_long = false;
  double longest = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    const StepCost& cost = costs[i];
    equally_long = equally_long || cost.threads;
    const double seconds =
        std::max(on_device ? kDeviceBlock : block_seconds, std::min(kLongestBlock, cost.overhead / kMostOverhead));
    const bool launches_ahead = on_device && cost.seconds < kDeviceBlock;
    const int64_t fewest =
        std::max<int64_t>(launches_ahead ? kDeviceSteps : 1, cost.threads ? cost.batches_ahead + 1 : 1);
    steps[i] = std::max(fewest, static_cast<int64_t>(std::ceil(seconds / cost.seconds)));
    longest = std::max(longest, static_cast<double>(steps[i]) * cost.seconds);
  }
  for (size_t i = 0; i < costs.size() && equally_long; ++i) {
    steps[i] = std::max(steps[i], static_cast<int64_t>(std::llround(longest / costs[i].seconds)));
  }
  const auto like_baseline = [&](size_t i) {
    return costs[i].seconds < kAlike * costs[0].seconds && costs[0].seconds < kAlike * costs[i].seconds;
  };
  int64_t common = 0;
  for (size_t i = 0; i < costs.size(); ++i) common = like_baseline(i) ? std::max(common, steps[i]) : common;
  for (size_t i = 0; i < costs.size(); ++i) steps[i] = like_baseline(i) ? common : steps[i];
  return steps;
}

}  // namespace tenfold
