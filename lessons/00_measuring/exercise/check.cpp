#include <gtest/gtest.h>

#include EXERCISE

#include <random>

namespace {

// Blocks on a machine that becomes `slowdown` times slower at block `at`; B is `speedup` times faster than A.
std::pair<std::vector<double>, std::vector<double>> blocks(int count, double speedup, int at, double slowdown,
                                                           unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1, 0.01);
  std::vector<double> a, b;
  for (int i = 0; i < count; ++i) {
    const double machine = i >= at ? slowdown : 1;
    a.push_back(0.1 * machine * noise(random));
    b.push_back(0.1 * machine * noise(random) / speedup);
  }
  return {a, b};
}

TEST(Exercise00, FindsARealDifference) {
  const auto [a, b] = blocks(12, 1.10, 6, 3, 1);
  const Comparison found = compare(a, b);
  EXPECT_EQ(found.answer, "faster");
  EXPECT_NEAR(found.ratio, 1.10, 0.02);
}

TEST(Exercise00, TheIntervalEnclosesTheTruth) {
  int inside = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto [a, b] = blocks(12, 1.05, 6, 3, seed);
    const Comparison found = compare(a, b);
    inside += found.low <= 1.05 && 1.05 <= found.high ? 1 : 0;
  }
  EXPECT_GE(inside, 180)
      << "hint: a single number is no interval; take the ratio of each pair of neighbours, then their order statistics";
}

TEST(Exercise00, EqualProgramsAreNotCalledFaster) {
  int claims = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto [a, b] = blocks(12, 1, 12, 1, seed);
    claims += compare(a, b).answer == "cannot tell" ? 0 : 1;
  }
  EXPECT_LE(claims, 20) << "hint: answer only when the whole interval lies on one side of 1";
}

TEST(Exercise00, OneStallDoesNotDecide) {
  auto [a, b] = blocks(12, 1, 12, 1, 7);
  a[3] *= 40;  // the machine slept in one block of A
  EXPECT_EQ(compare(a, b).answer, "cannot tell") << "hint: a mean follows a single outlier, a median does not";
}

TEST(Exercise00, FiveBlocksAreTooFew) {
  const auto [a, b] = blocks(5, 1.5, 5, 1, 3);
  EXPECT_EQ(compare(a, b).answer, "cannot tell") << "hint: look at .coverage of the interval";
}

}  // namespace
