// The verdict rule on synthetic blocks: how often it is right, how often it claims something false. Seeds are fixed.
#include "common/result/verdict.h"
#include "common/base/flags.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>

namespace tenfold {
namespace {

using Random = std::mt19937_64;
/// The factor by which noise lengthens a block.
using Noise = std::function<double(Random&)>;

Noise normal_noise(double size) {
  return [size](Random& random) { return std::exp(size * std::normal_distribution<double>()(random)); };
}

/// With a tail to one side: now and then a block is much longer, never much shorter.
Noise skewed_noise(double size) {
  return [size](Random& random) { return 1 + size * std::exponential_distribution<double>(1)(random); };
}

struct Conditions {
  Noise noise;              ///< of a block
  double drift = 0;         ///< of the whole machine from round to round; pairing must cancel it
  double build = 0;         ///< of each variant from build to build
  double second_block = 1;  ///< the second baseline's speed over the first's
  int rounds = kFullRounds;
  int builds = 1;
};

struct Sample {
  Blocks a, b, technique;
};

Sample simulate(Random& random, const Conditions& conditions, double technique_speed) {
  Sample out;
  const double speeds[] = {1, conditions.second_block, technique_speed};
  std::normal_distribution<double> normal;
  double layouts[3] = {1, 1, 1};
  for (int i = 0; i < conditions.rounds; ++i) {
    const int build = i * conditions.builds / conditions.rounds;
    const bool built = i == 0 || build != (i - 1) * conditions.builds / conditions.rounds;
    const double common = 1e8 * std::exp(conditions.drift * normal(random));
    for (size_t j = 0; j < 3; ++j) {
      if (built) layouts[j] = std::exp(conditions.build * normal(random));
      Blocks& blocks = j == 0 ? out.a : j == 1 ? out.b : out.technique;
      blocks.items = 1000;
      blocks.build.push_back(build);
      blocks.wall_ns.push_back(std::llround(common / speeds[j] * layouts[j] * conditions.noise(random)));
    }
  }
  return out;
}

/// Share of each label over many runs.
std::map<Speed, double> shares(const Conditions& conditions, double technique_speed, int trials = 4000) {
  Random random(20260102);
  std::map<Speed, double> out;
  for (int trial = 0; trial < trials; ++trial) {
    const Sample sample = simulate(random, conditions, technique_speed);
    out[judge_speed(sample.a, sample.b, sample.technique, Clock::wall).label] += 1.0 / trials;
  }
  return out;
}

double claims(std::map<Speed, double> share) { return share[Speed::faster] + share[Speed::slower]; }

// The rows of TARGETS: 12 rounds, noise of 1 % that is even or has a tail.
TEST(VerdictRule, IdenticalCodeIsTheSame) {
  for (const Noise& noise : {normal_noise(0.01), skewed_noise(0.01)}) {
    auto share = shares({noise}, 1.0);
    EXPECT_GE(share[Speed::same], 0.95);
    EXPECT_LE(claims(share), 0.01);
  }
}

TEST(VerdictRule, FivePercentAreFound) {
  for (const Noise& noise : {normal_noise(0.01), skewed_noise(0.01)}) {
    auto faster = shares({noise}, 1.05);
    EXPECT_GE(faster[Speed::faster], 0.99);
    EXPECT_LE(faster[Speed::slower], 0.0005);
    auto slower = shares({noise}, 1 / 1.05);
    EXPECT_GE(slower[Speed::slower], 0.99);
    EXPECT_LE(slower[Speed::faster], 0.0005);
  }
}

// A busy machine may hide a difference; it must not invent one. The interval alone misses the truth in 5 %.
TEST(VerdictRule, NoiseMakesFewClaims) {
  for (const double size : {0.02, 0.05, 0.10, 0.30}) {
    EXPECT_LE(claims(shares({normal_noise(size)}, 1.0)), 0.05) << "noise " << size;
    EXPECT_LE(claims(shares({skewed_noise(size)}, 1.0)), 0.05) << "skewed noise " << size;
  }
}

// Divided by the mean of two baselines, skewed noise of this size made identical code FASTER more often with every
// round.
TEST(VerdictRule, ManyRoundsOfSkewedNoiseMakeNoClaim) {
  for (const int rounds : {100, 400}) {
    auto share = shares({.noise = skewed_noise(0.2), .rounds = rounds}, 1.0, 500);
    EXPECT_LE(claims(share), 0.005) << rounds << " rounds";
  }
}

// A build draws a memory layout that many rounds then measure very precisely. Enough builds make it noise again.
TEST(VerdictRule, BuildsAreSamples) {
  const Conditions twelve{.noise = normal_noise(0.05), .build = 0.02, .rounds = 360, .builds = 12};
  EXPECT_LE(claims(shares(twelve, 1.0, 1000)), 0.01);
  EXPECT_GE((shares(twelve, 1 / 1.05, 1000)[Speed::slower]), 0.90);

  const Conditions skewed{.noise = skewed_noise(0.05), .build = 0.02, .rounds = 360, .builds = 12};
  EXPECT_LE(claims(shares(skewed, 1.0, 1000)), 0.01);
  EXPECT_GE((shares(skewed, 1 / 1.05, 1000)[Speed::slower]), 0.90);

  const Conditions two{.noise = normal_noise(0.05), .build = 0.02, .rounds = 360, .builds = 2};
  EXPECT_GE(claims(shares(two, 1.0, 1000)), 0.10) << "two builds measure two layouts: this is what the twelve are for";
}

// An effect of half a per cent is larger than any that was recorded (tests/power/recorded).
TEST(VerdictRule, SmallEffectsOfABuildCostLittle) {
  for (const double build : {0.0, 0.005}) {
    const Conditions conditions{.noise = normal_noise(0.05), .build = build, .rounds = 360, .builds = 12};
    EXPECT_GE((shares(conditions, 1.0, 1000)[Speed::same]), 0.95) << build;
    EXPECT_GE((shares(conditions, 1.05, 1000)[Speed::faster]), 0.99) << build;
  }
}

TEST(VerdictRule, PairingCancelsTheDriftOfTheMachine) {
  const Conditions conditions{.noise = normal_noise(0.01), .drift = 0.30};  // rounds differ by 30 %
  EXPECT_GE((shares(conditions, 1.05)[Speed::faster]), 0.95);
  EXPECT_GE((shares(conditions, 1.0)[Speed::same]), 0.90);
}

// Two identical baselines differ by 5 %: a technique between them may be identical, too. What is clearer is told all
// the same.
TEST(VerdictRule, UnequalBaselinesForbidWhatTheyMayExplain) {
  const Conditions moved{.noise = normal_noise(0.005), .second_block = 1.05};
  for (const double speed : {1.0, 1.03, 1.05}) EXPECT_GE(shares(moved, speed)[Speed::ambiguous], 0.99) << speed;
  EXPECT_GE(shares(moved, 1.30)[Speed::faster], 0.99);
  EXPECT_GE(shares(moved, 0.70)[Speed::slower], 0.99);
}

TEST(VerdictRule, FewRoundsDecideNothing) {
  for (int rounds = 1; rounds < kFewestRounds; ++rounds) {
    auto share = shares({.noise = normal_noise(0.001), .rounds = rounds}, 2.0);
    EXPECT_NEAR(share[Speed::undecided], 1, 1e-9) << rounds << " rounds";
  }
  auto enough = shares({.noise = normal_noise(0.001), .rounds = kFewestRounds}, 2.0);
  EXPECT_NEAR(enough[Speed::faster], 1, 1e-9);
}

Blocks constant(double seconds, size_t count = 12, int64_t items = 100) {
  Blocks blocks{.items = items};
  blocks.build.assign(count, 0);
  blocks.wall_ns.assign(count, std::llround(1e9 * seconds));
  return blocks;
}

SpeedVerdict judged(const Blocks& a, const Blocks& b, const Blocks& technique) {
  return judge_speed(a, b, technique, Clock::wall);
}

TEST(JudgeSpeed, RatioIsTheMedianOfTheQuotientsAgainstEitherBaseline) {
  // Rates 1000 and 1004 against 2004: quotients 2.004 and 1.996.
  const SpeedVerdict verdict = judged(constant(0.1), constant(100.0 / 1004), constant(100.0 / 2004));
  EXPECT_NEAR(verdict.ratio.middle, 2.0, 1e-5);
  EXPECT_NEAR(verdict.ratio.low, 2004.0 / 1004, 1e-6);
  EXPECT_NEAR(verdict.ratio.high, 2.004, 1e-6);
  EXPECT_NEAR(verdict.noise(), 0.004, 1e-6);
  EXPECT_EQ(verdict.label, Speed::faster);
}

TEST(JudgeSpeed, ItemsCountAndNotBlocks) {
  EXPECT_EQ(judged(constant(0.1), constant(0.1), constant(0.4, 12, 400)).label, Speed::same)
      << "four times the work, four times the time";
}

TEST(JudgeSpeed, AClaimNeedsMoreThanOnePercent) {
  EXPECT_EQ(judged(constant(0.1), constant(0.1), constant(0.1 / 1.009)).label, Speed::same);
  EXPECT_EQ(judged(constant(0.1), constant(0.1), constant(0.1 / 1.011)).label, Speed::faster);
  EXPECT_EQ(judged(constant(0.1), constant(0.1), constant(0.1 * 1.011)).label, Speed::slower);
}

// However noisy the machine, SAME means within 2 %.
TEST(JudgeSpeed, SameDoesNotWidenWithTheNoise) {
  Blocks technique = constant(0.1);
  for (size_t i = 0; i < 12; i += 2) technique.wall_ns[i] -= 3'000'000;
  const SpeedVerdict verdict = judged(constant(0.1), constant(0.1), technique);
  EXPECT_NEAR(verdict.ratio.high, 1 / 0.97, 1e-9);
  EXPECT_EQ(verdict.label, Speed::ambiguous);
}

TEST(JudgeSpeed, TheCasesClockDecides) {
  Blocks baseline = constant(0.1), technique = constant(0.2);
  baseline.processor_ns = baseline.wall_ns;
  technique.processor_ns = baseline.wall_ns;  // the other half of its time, another program had the core
  EXPECT_EQ(judge_speed(baseline, baseline, technique, Clock::wall).label, Speed::slower);
  EXPECT_EQ(judge_speed(baseline, baseline, technique, Clock::processor).label, Speed::same);
  EXPECT_THROW(judge_speed(baseline, baseline, technique, Clock::device), std::invalid_argument)
      << "which was not taken";
}

TEST(JudgeSpeed, RefusesUnequalCountsAndEmptyBlocks) {
  EXPECT_THROW(judged(constant(0.1), constant(0.1, 11), constant(0.1)), std::invalid_argument);
  EXPECT_THROW(judged(constant(0.1), constant(0.1), constant(0.1, 13)), std::invalid_argument);
  EXPECT_THROW(judged(constant(0.1), constant(0.1), constant(0)), std::invalid_argument);
  EXPECT_THROW(judged(constant(0.1), constant(0.1), constant(0.1, 12, 0)), std::invalid_argument);
  EXPECT_EQ(judged({}, {}, {}).label, Speed::undecided);
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

TEST(Labels, TheHelpOfRoundsNamesTheFewest) {
  for (const Flag& flag : lesson_flags()) {
    if (flag.name != "--rounds") continue;
    EXPECT_NE(flag.help.find("under " + std::to_string(kFewestRounds) + " there is no verdict"), std::string::npos)
        << flag.help;
    return;
  }
  FAIL() << "there is no flag --rounds";
}

TEST(Labels, SurviveTheWayThroughText) {
  for (const Speed label : {Speed::faster, Speed::slower, Speed::same, Speed::ambiguous, Speed::undecided,
                            Speed::invalid, Speed::skipped}) {
    EXPECT_EQ(speed_from(to_string(label)), label);
  }
  for (const Memory label : {Memory::smaller, Memory::larger, Memory::same, Memory::unknown}) {
    EXPECT_EQ(memory_from(to_string(label)), label);
  }
  for (const Clock clock : {Clock::wall, Clock::processor, Clock::device})
    EXPECT_EQ(clock_from(to_string(clock)), clock);
  EXPECT_THROW(speed_from("faster"), std::invalid_argument);
  EXPECT_THROW(memory_from(""), std::invalid_argument);
  EXPECT_THROW(clock_from("sundial"), std::invalid_argument);
}

}  // namespace
}  // namespace tenfold
