#pragma once
// Variants that train to an end, seed by seed.

#include <chrono>

#include "common/harness/part_pass.h"

namespace tenfold {

/// Whether one more seed is trained after `seeds` that took `spent` seconds, `once` of them for what all seeds share.
/// Beyond kFewestSeeds only if it should end within the preset's time. A training whose fewest seeds would take several
/// times as long as that is left to a longer preset: one seed shows that it runs, and there is no verdict. What came
/// out so far has no say.
bool wants_seed(const Preset& preset, int seeds, double spent, double once);

/// A training. Within a seed all variants train one after the other, in an order that is drawn, and reversed for the
/// next seed: what moves the machine for longer than a training moves all of them.
class TrainingPass : public PartPass {
 public:
  explicit TrainingPass(PartRun run);

  bool wanted() const override;
  void measure(double seconds, const SettingsWatch& watch) override;

 protected:
  void complete(CaseResult& result) const override;

 private:
  /// --rounds says how many seeds; else the preset does.
  bool wants_seed() const;
  /// Trains every variant with the next seed. A variant that fails is out; the baseline's failure ends the pass.
  void train_seed();
  /// With `count` its memory, too.
  Learned train(Candidate& candidate, uint64_t seed, bool count) const;
  /// Trains, and counts what memory that takes at most, evaluations included.
  Learned counted(Candidate& candidate, const Trial& trial) const;

  const Training& training_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double made_before_ = 0;     // seconds_making_shared() at begin_
  int seeds_ = 0;              // that are done
  std::vector<bool> counted_;  // by candidate: its memory, in a seed that made nothing for all of them
};

}  // namespace tenfold
