#include "common/harness/training_pass.h"
#include "common/base/seconds_since.h"

#include <algorithm>
#include <cmath>

namespace tenfold {
namespace {

bool is_finite(const Curve& curve) {
  return std::all_of(curve.quality.begin(), curve.quality.end(), [](double quality) { return std::isfinite(quality); });
}

}  // namespace

bool wants_seed(const Preset& preset, int seeds, double spent) {
  constexpr double kMuchLonger = 4;
  if (seeds == 0 || seeds >= preset.seeds) return seeds < preset.seeds;
  if (seeds >= kFewestSeeds) return spent * (seeds + 1) / seeds <= preset.training_seconds;
  return spent * kFewestSeeds / seeds <= kMuchLonger * preset.training_seconds;
}

bool TrainingPass::wants_seed() const {
  if (!run_.candidates.front().ok()) return false;
  if (run_.options.rounds) return seeds_ < *run_.options.rounds;
  return tenfold::wants_seed(run_.options.preset, seeds_, seconds_since(begin_));
}

Learned TrainingPass::train(Candidate& candidate, uint64_t seed) const {
  run_.clean.restore();
  torch::manual_seed(seed);
  Trial trial = run_.trial(candidate);
  trial.seed = seed;
  Learned learned = candidate.run->train(trial);
  if (!is_finite(learned.curve))
    throw NotFinite(run_.chosen.training->metric.name + " became NaN or infinite with seed " + std::to_string(seed));
  return learned;
}

void TrainingPass::train_seed() {
  const uint64_t seed = run_.options.seed + static_cast<uint64_t>(seeds_);
  const int seeds = run_.options.rounds.value_or(run_.options.preset.seeds);
  // Of a pair of seeds the same order, once forward and once reversed.
  std::vector<size_t> order =
      drawn_order(run_.candidates.size(), run_.options.seed + static_cast<uint64_t>(seeds_ / 2));
  if (seeds_ % 2 == 1) std::reverse(order.begin(), order.end());
  bool one_thread = run_.device.is_cpu() && run_.options.threads == 1;
  for (size_t i = 0; i < order.size(); ++i) {
    Candidate& candidate = run_.candidates[order[i]];
    if (!candidate.ok()) continue;
    run_.stop_if_interrupted();
    run_.progress.at((seeds_ + static_cast<double>(i) / static_cast<double>(order.size())) / seeds,
                     "seed " + std::to_string(seeds_ + 1) + " of " + std::to_string(seeds) + ": " + candidate.name);
    run_.guarded(candidate, [&] {
      const Learned learned = train(candidate, seed);
      one_thread = one_thread && learned.one_thread;
      candidate.result.quality[run_.chosen.training->metric.name].push_back(learned.curve.quality.back());
      if (!candidate.result.curves) candidate.result.curves.emplace();
      candidate.result.curves->push_back(learned.curve);
    });
  }
  if (!run_.candidates.front().ok()) {
    // Without a baseline there is nothing to compare; some have one seed more than others.
    for (Candidate& candidate : run_.candidates) {
      candidate.result.quality.clear();
      candidate.result.curves.reset();
    }
    return;
  }
  // Fixed by the first seed, before there is a ratio that it could favour: what waits or has threads is timed by the
  // wall's clock.
  if (seeds_ == 0) run_.clock = one_thread ? Clock::processor : Clock::wall;
  ++seeds_;
}

}  // namespace tenfold
