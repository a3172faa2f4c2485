// The self-test of a run: what its own two baselines say of its judgement.
#include "common/result/self_test.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/sample.h"

namespace tenfold {
namespace {

/// Rounds of identical code whose times scatter by so much, and drift by so much from the first to the last; the second
/// baseline takes `second` times as long.
Blocks scattered(std::mt19937_64& random, int rounds, double scatter, double drift = 0, double second = 1) {
  std::lognormal_distribution<double> times(0, scatter);
  Blocks blocks{.steps = 1, .items = 1000};
  for (int i = 0; i < rounds; ++i) {
    blocks.build.push_back(i / 4);
    blocks.position.push_back(0);
    blocks.wall_ns.push_back(std::llround(1e7 * second * times(random) * (1 + drift * i / rounds)));
  }
  return blocks;
}

Result run_of(const std::vector<std::pair<Blocks, Blocks>>& baselines) {
  Result result = sample_result();
  const CaseResult sample = result.cases[0];
  result.cases.clear();
  for (const auto& [first, second] : baselines) {
    CaseResult c = sample;
    c.name = "case " + std::to_string(result.cases.size());
    c.clock = Clock::wall;
    c.variants.resize(1);
    c.variants[0].blocks = {first, second};
    c.verdicts.clear();
    result.cases.push_back(c);
  }
  return result;
}

SelfTest tested(int cases, int rounds, double scatter, double drift = 0, double second = 1) {
  std::mt19937_64 random(7);
  std::vector<std::pair<Blocks, Blocks>> baselines;
  for (int i = 0; i < cases; ++i) {
    Blocks first = scattered(random, rounds, scatter, drift);
    baselines.emplace_back(std::move(first), scattered(random, rounds, scatter, drift, second));
  }
  return self_test({run_of(baselines)});
}

TEST(SelfTest, OfAQuietMachineFindsWhatIsPlanted) {
  const SelfTest test = tested(20, 24, 0.005);
  EXPECT_EQ(test.cases(), 20);
  EXPECT_EQ(test.same(), 20);
  EXPECT_EQ(test.told_apart(), 0);
  EXPECT_EQ(test.found(), 20);
  EXPECT_EQ(test.objection(), "");
  EXPECT_EQ(test.rows[3].case_name, "case 3");
  EXPECT_EQ(test.rows[3].rounds, 24);
  EXPECT_LT(test.rows[3].equal.low, 1.0);
  EXPECT_GT(test.rows[3].equal.high, 1.0);
}

// A machine that drifts by a tenth while it measures: both baselines of a round drift together.
TEST(SelfTest, DriftIsNoDifference) {
  const SelfTest test = tested(20, 24, 0.005, 0.1);
  EXPECT_EQ(test.same(), 20);
  EXPECT_EQ(test.found(), 20);
}

TEST(SelfTest, OfANoisyMachineSaysThatItFindsNothing) {
  const SelfTest test = tested(20, 12, 0.3);
  EXPECT_LE(test.told_apart(), 3);
  EXPECT_LT(test.found(), 10);
  EXPECT_NE(test.objection().find("5 % slower would have been found in"), std::string::npos) << test.objection();
}

TEST(SelfTest, WhatIsNotTheSameIsToldApart) {
  const SelfTest test = tested(20, 24, 0.005, 0, 1.04);
  EXPECT_EQ(test.told_apart(), 20);
  EXPECT_EQ(test.rows[0].identical, Speed::slower);
  EXPECT_EQ(test.objection(), "identical code was told apart in 20 of 20 cases");
  std::mt19937_64 random(7);
  std::vector<std::pair<Blocks, Blocks>> baselines;
  for (const double second : {1.0, 1.04, 1.0}) {
    Blocks first = scattered(random, 24, 0.005);
    baselines.emplace_back(std::move(first), scattered(random, 24, 0.005, 0, second));
  }
  const SelfTest once = self_test({run_of(baselines)});
  EXPECT_EQ(once.told_apart(), 1);
  EXPECT_EQ(once.found(), 2) << "5 % off of 4 % more are no longer told";
  EXPECT_EQ(once.objection(), "") << "an interval of 95 % may miss once";
}

TEST(SelfTest, PlantedAndFoundAreTheSameSize) {
  // 3 % are no 5 %: where the second baseline is that much slower, 5 % taken off are 2 % and still found; 5 % on 4.2 %
  // less are not.
  const SelfTest test = tested(1, 40, 0.0005, 0, 1 / 1.045);
  EXPECT_FALSE(test.rows[0].found) << "it would call 0.5 % a difference of 5 %";
}

TEST(SelfTest, IsOfTimedCasesOnly) {
  std::mt19937_64 random(7);
  const Blocks few = scattered(random, 5, 0.01), none;
  EXPECT_EQ(self_test({run_of({{few, few}, {none, none}})}).cases(), 0);
  EXPECT_NE(self_test({}).objection().find("no case was timed for 6 rounds"), std::string::npos);
  EXPECT_EQ(self_test({sample_training()}).cases(), 0);
  // Ranks that take turns on a core have no verdict on speed, and none here.
  const Blocks enough = scattered(random, 12, 0.01);
  Result ranks = run_of({{enough, enough}});
  EXPECT_EQ(self_test({ranks}).cases(), 1);
  ranks.cases[0].ranks = 4;
  ranks.machine.cores = 2;
  EXPECT_EQ(self_test({ranks}).cases(), 0);
}

}  // namespace
}  // namespace tenfold
