// The verdict rule on synthetic rounds: how often it is right, how often it claims something false. Seeds are fixed.
#include <tenfold/verdict.h>

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <stdexcept>

namespace tenfold {
namespace {

struct Conditions {
  double noise;             ///< of one block, relative
  double drift = 0;         ///< of the whole machine from round to round; pairing must cancel it
  double second_block = 1;  ///< the second baseline's speed over the first's
};

struct Rounds {
  std::vector<Round> a, b, technique;
};

Rounds simulate(std::mt19937_64& random, const Conditions& conditions, double technique_speed, int count) {
  std::normal_distribution<double> normal;
  Rounds out;
  for (int i = 0; i < count; ++i) {
    const double common = 0.1 * std::exp(conditions.drift * normal(random));
    const auto block = [&](double speed) { return Round{i % 3, common / speed * std::exp(conditions.noise * normal(random)), 1000}; };
    out.a.push_back(block(1));
    out.b.push_back(block(conditions.second_block));
    out.technique.push_back(block(technique_speed));
  }
  return out;
}

/// Share of each label over many runs of `count` rounds.
std::map<Speed, double> shares(const Conditions& conditions, double technique_speed, int count = kFullRounds) {
  std::mt19937_64 random(20260102);
  const int trials = 4000;
  std::map<Speed, double> out;
  for (int trial = 0; trial < trials; ++trial) {
    const Rounds rounds = simulate(random, conditions, technique_speed, count);
    out[judge_speed(rounds.a, rounds.b, rounds.technique).label] += 1.0 / trials;
  }
  return out;
}

TEST(VerdictRule, IdenticalCodeIsTheSame) {
  auto share = shares({0.01}, 1.0);
  EXPECT_GE(share[Speed::same], 0.90);
  EXPECT_LE(share[Speed::faster] + share[Speed::slower], 0.02);
}

TEST(VerdictRule, FivePercentAreFound) {
  auto faster = shares({0.01}, 1.05);
  EXPECT_GE(faster[Speed::faster], 0.95);
  EXPECT_LE(faster[Speed::slower], 0.0005);
  auto slower = shares({0.01}, 1 / 1.05);
  EXPECT_GE(slower[Speed::slower], 0.95);
  EXPECT_LE(slower[Speed::faster], 0.0005);
}

// A busy machine may hide a difference; it must not invent one more often than its interval misses the truth: 3.9 %.
TEST(VerdictRule, NoiseMakesFewClaims) {
  for (const double noise : {0.02, 0.05, 0.10, 0.30}) {
    auto share = shares({noise}, 1.0);
    EXPECT_LE(share[Speed::faster] + share[Speed::slower], 0.039) << "noise " << noise;
  }
}

TEST(VerdictRule, PairingCancelsTheDriftOfTheMachine) {
  auto faster = shares({0.01, 0.30}, 1.05);  // rounds differ by 30 %, the technique by 5 %
  EXPECT_GE(faster[Speed::faster], 0.95);
  auto same = shares({0.01, 0.30}, 1.0);
  EXPECT_GE(same[Speed::same], 0.90);
}

TEST(VerdictRule, UnequalBaselinesForbidAnyClaim) {
  auto share = shares({0.005, 0, 1.05}, 1.30);  // 30 % faster, but two identical baselines differ by 5 %
  EXPECT_GE(share[Speed::ambiguous], 0.99);
}

TEST(VerdictRule, FewRoundsDecideNothing) {
  for (int count = 1; count < kFewestRounds; ++count) {
    auto share = shares({0.001}, 2.0, count);
    EXPECT_NEAR(share[Speed::undecided], 1, 1e-9) << count << " rounds";
  }
  auto enough = shares({0.001}, 2.0, kFewestRounds);
  EXPECT_NEAR(enough[Speed::faster], 1, 1e-9);
}

std::vector<Round> constant(double seconds, int count = 12) {
  return std::vector<Round>(static_cast<size_t>(count), Round{0, seconds, 100});
}

TEST(JudgeSpeed, RatioIsItemsPerSecondOverTheMeanOfBothBaselines) {
  // Rates 1000 and 1004 against 2004: the mean is 1002.
  const SpeedVerdict verdict = judge_speed(constant(0.1), constant(100.0 / 1004), constant(100.0 / 2004));
  EXPECT_NEAR(verdict.ratio, 2.0, 1e-12);
  EXPECT_NEAR(verdict.noise, 0.004, 1e-9);
  EXPECT_EQ(verdict.label, Speed::faster);
}

TEST(JudgeSpeed, ItemsCountAndNotBlocks) {
  const std::vector<Round> longer(12, Round{0, 0.4, 400});  // four times the work in four times the time
  EXPECT_EQ(judge_speed(constant(0.1), constant(0.1), longer).label, Speed::same);
}

TEST(JudgeSpeed, AClaimNeedsMoreThanOnePercent) {
  EXPECT_EQ(judge_speed(constant(0.1), constant(0.1), constant(0.1 / 1.009)).label, Speed::same);
  EXPECT_EQ(judge_speed(constant(0.1), constant(0.1), constant(0.1 / 1.011)).label, Speed::faster);
  EXPECT_EQ(judge_speed(constant(0.1), constant(0.1), constant(0.1 * 1.011)).label, Speed::slower);
}

TEST(JudgeSpeed, SameIsNeverWiderThanFivePercent) {
  // Baselines that wander by 20 % around each other, a technique that wanders by 18 %.
  std::vector<Round> a, b, technique;
  for (int i = 0; i < 12; ++i) {
    a.push_back({0, i % 2 ? 0.1 : 0.12, 100});
    b.push_back({0, i % 2 ? 0.12 : 0.1, 100});
    technique.push_back({0, i % 2 ? 0.1 : 0.118, 100});
  }
  EXPECT_EQ(judge_speed(a, b, technique).label, Speed::ambiguous);
}

TEST(JudgeSpeed, RefusesUnequalCountsAndEmptyBlocks) {
  EXPECT_THROW(judge_speed(constant(0.1), constant(0.1, 11), constant(0.1)), std::invalid_argument);
  EXPECT_THROW(judge_speed(constant(0.1), constant(0.1), constant(0.1, 13)), std::invalid_argument);
  EXPECT_THROW(judge_speed(constant(0.1), constant(0.1), constant(0)), std::invalid_argument);
  const std::vector<Round> idle(12, Round{0, 0.1, 0});
  EXPECT_THROW(judge_speed(constant(0.1), constant(0.1), idle), std::invalid_argument);
}

TEST(JudgeMemory, OnePercentAndNothingMeasured) {
  EXPECT_EQ(judge_memory(1000, 995).label, Memory::same);
  EXPECT_EQ(judge_memory(1000, 980).label, Memory::smaller);
  EXPECT_EQ(judge_memory(1000, 1020).label, Memory::larger);
  EXPECT_NEAR(judge_memory(1000, 250).ratio, 0.25, 1e-12);
  EXPECT_EQ(judge_memory(std::nullopt, 1000).label, Memory::unknown);
  EXPECT_EQ(judge_memory(1000, std::nullopt).label, Memory::unknown);
  EXPECT_EQ(judge_memory(0, 1000).label, Memory::unknown);
}

TEST(Labels, SurviveTheWayThroughText) {
  for (const Speed label :
       {Speed::faster, Speed::slower, Speed::same, Speed::ambiguous, Speed::undecided, Speed::invalid, Speed::skipped}) {
    EXPECT_EQ(speed_from(to_string(label)), label);
  }
  for (const Memory label : {Memory::smaller, Memory::larger, Memory::same, Memory::unknown})
    EXPECT_EQ(memory_from(to_string(label)), label);
  EXPECT_THROW(speed_from("faster"), std::invalid_argument);
  EXPECT_THROW(memory_from(""), std::invalid_argument);
}

}  // namespace
}  // namespace tenfold
