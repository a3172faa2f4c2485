#pragma once
// Variants that train to an end, seed by seed.

#include <chrono>

#include "common/harness/passes.h"

namespace tenfold {

/// The only pass of a training. Within a seed all variants train one after the other, in an order that is drawn, and
/// reversed for the next seed: what moves the machine for longer than a training moves all of them.
class TrainingPass {
 public:
  explicit TrainingPass(CaseRun& run) : run_(run) {}

  /// --rounds says how many seeds; else the preset does, and beyond kFewestSeeds one is begun only if it should end
  /// within the preset's time. What came out so far has no say.
  bool wants_seed() const;
  /// Trains every variant with the next seed. A variant that fails is out; the baseline's failure ends the pass.
  void train_seed();

 private:
  Learned train(Candidate& candidate, uint64_t seed) const;

  CaseRun& run_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int seeds_ = 0;  // that are done
};

}  // namespace tenfold
