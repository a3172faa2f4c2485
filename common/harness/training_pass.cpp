#include "common/harness/training_pass.h"

#include <algorithm>
#include <numeric>

#include "common/base/all_finite.h"
#include "common/base/seconds_since.h"
#include "common/harness/passes.h"
#include "common/measure/memory.h"
#include "common/measure/shared_time.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

/// What one more seed came to. A note is a value for each seed; what stands for them is their mean.
void keep_seed(Candidate& candidate, const std::string& metric, const Learned& learned) {
  VariantResult& result = candidate.result;
  result.quality[metric].push_back(learned.curve.quality.back());
  if (!result.curves) result.curves.emplace();
  result.curves->push_back(learned.curve);
  for (const auto& [name, note] : candidate.record->notes) {
    Note& kept = result.notes.try_emplace(name, Note{.unit = note.unit}).first->second;
    if (!kept.of_seeds) kept.of_seeds.emplace();
    kept.of_seeds->push_back(note.value);
    kept.value =
        std::accumulate(kept.of_seeds->begin(), kept.of_seeds->end(), 0.0) / static_cast<double>(kept.of_seeds->size());
  }
  candidate.record->notes.clear();
}

}  // namespace

bool wants_seed(const Preset& preset, int seeds, double spent, double once) {
  constexpr double kMuchLonger = 4;
  if (seeds == 0 || seeds >= preset.seeds) return seeds < preset.seeds;
  const double a_seed = (spent - once) / seeds;
  if (seeds >= kFewestSeeds) return spent + a_seed <= preset.training_seconds;
  return once + a_seed * kFewestSeeds <= kMuchLonger * preset.training_seconds;
}

TrainingPass::TrainingPass(PartRun run)
    : PartPass(std::move(run)), training_(*std::get<const Training*>(run_.chosen.part.body)) {
  for (const Run& way : training_.runs) {
    const bool baseline = &way == &training_.runs.front();
    if (!baseline && !run_.options.choice.wants(way.name)) continue;
    run_.add({.name = way.name, .body = &way}, expected_of(training_, way, run_.device));
    run_.candidates.back().record->given = run_.chosen.settings_of_training(run_.size, run_.options.preset);
  }
}

bool TrainingPass::wanted() const {
  return run_.options.preset.timed && run_.options.preset.updates > 0 && !run_.only_memory();
}

void TrainingPass::measure(double /*seconds*/, const SettingsWatch& watch) {
  begin_ = std::chrono::steady_clock::now();
  made_before_ = seconds_making_shared();
  train_seed();
  watch.settings_read(run_);
  while (watch.goes_on() && wants_seed()) train_seed();
}

void TrainingPass::complete(CaseResult& result) const {
  result.kind = "training";
  result.metric = training_.metric;
  judge(result, run_.machine.cores);
}

bool TrainingPass::wants_seed() const {
  if (!run_.candidates.front().ok()) return false;
  if (run_.options.rounds) return seeds_ < *run_.options.rounds;
  // One rank's clocks decide for all.
  const double spent = run_.world.from_rank_0(seconds_since(begin_));
  const double once = run_.world.from_rank_0(seconds_making_shared() - made_before_);
  return tenfold::wants_seed(run_.options.preset, seeds_, spent, once);
}

Learned TrainingPass::train(Candidate& candidate, uint64_t seed, bool count) const {
  run_.clean.restore();
  torch::manual_seed(seed);
  Trial trial = run_.trial(candidate);
  trial.seed = seed;
  candidate.record->notes.clear();
  Learned learned = count ? counted(candidate, trial) : std::get<const Run*>(candidate.body)->train(trial);
  if (!all_finite(learned.curve.quality))
    throw NotFinite(training_.metric.name + " became NaN or infinite with seed " + std::to_string(seed));
  return learned;
}

Learned TrainingPass::counted(Candidate& candidate, const Trial& trial) const {
  // Every variant's first seed pays for the counting, some 30 ns an allocation; one whose seed had to be counted again
  // pays twice.
  const CountCpuMemory counting;
  const MemoryWatch memory(run_.devices());
  Learned learned = std::get<const Run*>(candidate.body)->train(trial);
  for (const torch::Device device : run_.devices()) synchronize(device);
  candidate.result.peak_bytes = memory.peaks();
  return learned;
}

void TrainingPass::train_seed() {
  const uint64_t seed = run_.options.seed + static_cast<uint64_t>(seeds_);
  const int seeds = run_.options.rounds.value_or(run_.options.preset.seeds);
  // Of a pair of seeds the same order, once forward and once reversed.
  std::vector<size_t> order =
      drawn_order(run_.candidates.size(), run_.options.seed + static_cast<uint64_t>(seeds_ / 2));
  if (seeds_ % 2 == 1) std::reverse(order.begin(), order.end());
  bool one_thread = run_.device.is_cpu() && run_.options.threads == 1 && run_.world.ranks.world_size == 1;
  counted_.resize(run_.candidates.size());
  for (size_t i = 0; i < order.size(); ++i) {
    Candidate& candidate = run_.candidates[order[i]];
    if (!candidate.ok()) continue;
    run_.stop_if_interrupted();
    run_.progress.at((seeds_ + static_cast<double>(i) / static_cast<double>(order.size())) / seeds,
                     "seed " + std::to_string(seeds_ + 1) + " of " + std::to_string(seeds) + ": " + candidate.name);
    const double made = seconds_making_shared();
    const bool count = !counted_[order[i]];
    run_.guarded(candidate, [&] {
      const Learned learned = train(candidate, seed, count);
      one_thread = one_thread && learned.one_thread;
      keep_seed(candidate, training_.metric.name, learned);
    });
    if (!count) continue;
    for (auto& [kind, bytes] : candidate.result.peak_bytes)
      bytes = static_cast<int64_t>(run_.world.max(static_cast<double>(bytes)));
    // What all variants share (a trained network, a data set) is no variant's memory, but lies in the peak of the first
    // one to ask for it: that one is counted again with the next seed.
    counted_[order[i]] = run_.world.max(seconds_making_shared() - made) == 0;
  }
  if (!run_.candidates.front().ok()) {
    // Without a baseline there is nothing to compare; some have one seed more than others.
    for (Candidate& candidate : run_.candidates) {
      candidate.result.quality.clear();
      candidate.result.curves.reset();
      candidate.result.notes.clear();
    }
    return;
  }
  // Fixed by the first seed, before there is a ratio that it could favour: what waits or has threads is timed by the
  // wall's clock.
  if (seeds_ == 0) run_.clock = one_thread ? Clock::processor : Clock::wall;
  ++seeds_;
}

}  // namespace tenfold
