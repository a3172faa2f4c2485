#include <gtest/gtest.h>

#include EXERCISE

namespace {

constexpr StepParts kSlowFiles{.decoding = 6, .augmenting = 1, .training = 3};

TEST(Exercise90, NothingPulledIsNothingGained) { EXPECT_NEAR(speedup(kSlowFiles, {}, 8), 1, 1e-9); }

TEST(Exercise90, ALeverShortensItsPart) {
  EXPECT_NEAR(speedup(kSlowFiles, {.decoded = true}, 8), 10.0 / 4, 1e-9)
      << "hint: what is decoded once needs no decoding";
  EXPECT_NEAR(speedup(kSlowFiles, {.ranks = 4}, 8), 4, 1e-9) << "hint: each rank has an equal part of everything";
}

TEST(Exercise90, WorkersLoadMeanwhile) {
  EXPECT_NEAR(speedup(kSlowFiles, {.workers = 7}, 8), 10.0 / 3, 1e-9)
      << "hint: a step then takes as long as the slower of loading and training";
  EXPECT_NEAR(speedup(kSlowFiles, {.workers = 1}, 8), 10.0 / 7, 1e-9)
      << "hint: one worker needs longer to load than the rank to train";
}

TEST(Exercise90, CoresAreTheLimit) {
  EXPECT_NEAR(speedup(kSlowFiles, {.workers = 4}, 2), 2, 1e-9) << "hint: two cores do at most twice the work of one";
  EXPECT_NEAR(speedup(kSlowFiles, {.workers = 4, .ranks = 2}, 2), 2, 1e-9)
      << "hint: workers and ranks want the same cores";
  EXPECT_NEAR(speedup(kSlowFiles, {.ranks = 4}, 2), 2, 1e-9) << "hint: four processes on two cores take turns";
}

TEST(Exercise90, GainsDoNotMultiply) {
  // Alone 3.33x and 2.5x. Together not 8.3x: both shorten the same part.
  EXPECT_NEAR(speedup(kSlowFiles, {.workers = 7, .decoded = true}, 8), 10.0 / 3, 1e-9)
      << "hint: once decoded, training is what a step waits for";
  EXPECT_NEAR(speedup(kSlowFiles, {.workers = 7, .ranks = 3, .decoded = true}, 8), 10, 1e-9)
      << "hint: then more ranks are what helps";
}

}  // namespace
