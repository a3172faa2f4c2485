// The verdict on trainings, on curves whose truth is known: how often it is right, how often it claims something false.
// Seeds are fixed.
#include "common/result/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

#include "common/result/judge.h"
#include "tests/support/sample.h"

namespace tenfold {
namespace {

using Random = std::mt19937_64;

const Metric kLoss{.name = "validation loss", .better = Better::lower, .margin = 0.01, .relative = true};
const Metric kAccuracy{.name = "accuracy", .unit = "%", .better = Better::higher, .margin = 0.5};

// --- final quality -------------------------------------------------------------------------------------------------

TEST(JudgeQuality, IdenticalTrainingIsNotWorse) {
  const std::vector<double> losses = {2.10, 2.14, 2.08, 2.11, 2.09, 2.12};
  const QualityVerdict verdict = judge_quality(losses, losses, kLoss);
  EXPECT_EQ(verdict.label, Quality::not_worse);
  EXPECT_EQ(verdict.difference.low, 0);
  EXPECT_EQ(verdict.difference.high, 0);
  EXPECT_NEAR(verdict.margin, 0.01 * 2.1067, 1e-5) << "1 % of the baseline's mean";
}

TEST(JudgeQuality, TheBadSideIsWhereTheMetricSays) {
  const std::vector<double> baseline = {80.0, 81.0, 79.5, 80.5, 80.2, 79.8};
  std::vector<double> more = baseline, less = baseline;
  for (size_t i = 0; i < baseline.size(); ++i) {
    more[i] += 2 + 0.01 * static_cast<double>(i);
    less[i] -= 2 + 0.01 * static_cast<double>(i);
  }
  Metric lower = kAccuracy;
  lower.better = Better::lower;
  EXPECT_EQ(judge_quality(baseline, more, kAccuracy).label, Quality::not_worse) << "better is not worse";
  EXPECT_EQ(judge_quality(baseline, less, kAccuracy).label, Quality::worse);
  EXPECT_EQ(judge_quality(baseline, more, lower).label, Quality::worse);
  EXPECT_EQ(judge_quality(baseline, less, lower).label, Quality::not_worse);
  EXPECT_NEAR(judge_quality(baseline, less, kAccuracy).difference.middle, -2.025, 1e-9) << "technique less baseline";
}

TEST(JudgeQuality, AnIntervalAcrossTheMarginIsAmbiguous) {
  const std::vector<double> baseline = {80, 80, 80, 80, 80, 80};
  EXPECT_EQ(judge_quality(baseline, {79, 81, 78, 82, 77, 83}, kAccuracy).label, Quality::ambiguous);
}

TEST(JudgeQuality, FewSeedsAreUndecidedAndOneHasNoInterval) {
  const std::vector<double> five = {80, 81, 79, 80, 82};
  const QualityVerdict verdict = judge_quality(five, five, kAccuracy);
  EXPECT_EQ(verdict.label, Quality::undecided);
  EXPECT_GT(verdict.difference.coverage, 0);
  EXPECT_EQ(judge_quality({80}, {70}, kAccuracy).label, Quality::undecided);
  EXPECT_EQ(judge_quality({80}, {70}, kAccuracy).difference.coverage, 0);
  EXPECT_EQ(judge_quality({80}, {70}, kAccuracy).difference.middle, -10);
}

TEST(JudgeQuality, RefusesWhatCannotBePaired) {
  EXPECT_THROW(judge_quality({}, {}, kLoss), std::invalid_argument);
  EXPECT_THROW(judge_quality({1, 2}, {1}, kLoss), std::invalid_argument);
  EXPECT_THROW(judge_quality({1, 2}, {1, std::nan("")}, kLoss), std::invalid_argument);
}

struct Shares {
  std::map<Quality, double> label;
  double covered = 0;  // of intervals that hold the true difference
};

/// Losses near 2 in which what a seed does to both variants (`common`) is larger than what it does to each (`own`).
Shares simulate_quality(int seeds, double loss, double own, int trials = 20000) {
  Random random(20260103);
  std::normal_distribution<double> normal;
  Shares shares;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> baseline, technique;
    for (int seed = 0; seed < seeds; ++seed) {
      const double common = 2 + 0.05 * normal(random);
      baseline.push_back(common + own * normal(random));
      technique.push_back(common + loss + own * normal(random));
    }
    const QualityVerdict verdict = judge_quality(baseline, technique, {.name = "loss", .margin = 0.02});
    shares.label[verdict.label] += 1.0 / trials;
    shares.covered += (verdict.difference.low <= loss && loss <= verdict.difference.high ? 1.0 : 0.0) / trials;
  }
  return shares;
}

TEST(JudgeQuality, TheIntervalCoversTheTruth) {
  for (const int seeds : {6, 12}) {
    for (const double loss : {0.0, 0.02, 0.1}) {
      EXPECT_NEAR(simulate_quality(seeds, loss, 0.01).covered, 0.95, 0.006) << seeds << " seeds, loss " << loss;
    }
  }
}

// The margin is 0.02, as 1 % of a loss near 2.
TEST(JudgeQuality, AnIdenticalTechniqueIsFoundNotWorse) {
  EXPECT_GE(simulate_quality(6, 0, 0.007).label[Quality::not_worse], 0.94);
  EXPECT_GE(simulate_quality(12, 0, 0.01).label[Quality::not_worse], 0.98);
  EXPECT_LE(simulate_quality(6, 0, 0.007).label[Quality::worse], 0.001);
}

TEST(JudgeQuality, ALossOfTwoMarginsIsFoundWorse) {
  EXPECT_GE(simulate_quality(6, 0.04, 0.007).label[Quality::worse], 0.94);
  EXPECT_GE(simulate_quality(12, 0.04, 0.01).label[Quality::worse], 0.98);
  EXPECT_LE(simulate_quality(6, 0.04, 0.007).label[Quality::not_worse], 0.001);
}

TEST(JudgeQuality, ALossOfTheMarginIsSeldomClaimedEitherWay) {
  for (const double own : {0.003, 0.01, 0.03}) {
    auto label = simulate_quality(6, 0.02, own).label;
    EXPECT_NEAR(label[Quality::not_worse], 0.025, 0.005) << own;
    EXPECT_NEAR(label[Quality::worse], 0.025, 0.005) << own;
  }
}

TEST(JudgeQuality, NoiseWiderThanTheMarginDecidesNothing) {
  auto label = simulate_quality(6, 0, 0.05).label;
  EXPECT_GE(label[Quality::ambiguous], 0.9);
  EXPECT_LE(label[Quality::worse], 0.03);
}

// --- time to a quality ---------------------------------------------------------------------------------------------

/// Evaluated once a second; processor time passes half as fast.
Curve curve_of(const std::vector<double>& quality, double seconds = 1) {
  Curve curve;
  curve.quality = quality;
  for (size_t i = 1; i <= quality.size(); ++i) {
    curve.wall_ns.push_back(std::llround(1e9 * seconds * static_cast<double>(i)));
    curve.processor_ns.push_back(curve.wall_ns.back() / 2);
  }
  return curve;
}

TEST(SecondsTo, LiesOnTheLineBetweenTwoEvaluations) {
  const Curve curve = curve_of({4, 3, 2.5, 2.6, 2});
  EXPECT_DOUBLE_EQ(*seconds_to(curve, 3.25, Better::lower, Clock::wall), 1.75);
  EXPECT_DOUBLE_EQ(*seconds_to(curve, 3, Better::lower, Clock::wall), 2);
  EXPECT_DOUBLE_EQ(*seconds_to(curve, 2.55, Better::lower, Clock::wall), 2.9) << "the first time counts";
  EXPECT_DOUBLE_EQ(*seconds_to(curve, 3.25, Better::lower, Clock::processor), 0.875);
  EXPECT_DOUBLE_EQ(*seconds_to(curve, 9, Better::lower, Clock::wall), 1) << "before the first evaluation is unknown";
  EXPECT_FALSE(seconds_to(curve, 1.9, Better::lower, Clock::wall));
  EXPECT_DOUBLE_EQ(*seconds_to(curve_of({10, 20, 40}), 30, Better::higher, Clock::wall), 2.5);
  EXPECT_FALSE(seconds_to(curve_of({10, 20, 40}), 41, Better::higher, Clock::wall));
}

/// A loss that falls as trainings do, evaluated after each of 20 parts of it. What the seed does to it stays through a
/// whole training; each evaluation has a noise of its own.
Curve falling(Random& random, double seed_noise, double own_noise, double seconds, double worse = 0) {
  std::normal_distribution<double> normal;
  std::vector<double> quality;
  for (int i = 1; i <= 20; ++i)
    quality.push_back(2 + worse + 2 * std::exp(-0.15 * i) + seed_noise + own_noise * normal(random));
  return curve_of(quality, seconds);
}

std::vector<std::vector<Curve>> trainings(Random& random, int seeds, double own_noise, double speed, double worse = 0) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<Curve>> curves(2);
  for (int seed = 0; seed < seeds; ++seed) {
    const double common = 0.02 * normal(random);
    curves[0].push_back(falling(random, common, own_noise, std::exp(0.02 * normal(random))));
    curves[1].push_back(falling(random, common, own_noise, std::exp(0.02 * normal(random)) / speed, worse));
  }
  return curves;
}

TEST(TimeToQuality, ATechniqueThatIsFasterByHalfIsFaster) {
  Random random(1);
  const auto curves = trainings(random, 6, 0.002, 1.5);
  const TimeToQuality time = judge_time_to_quality(curves[0], curves[1], Better::lower, 0.04, Clock::wall);
  EXPECT_EQ(time.label, Speed::faster);
  EXPECT_NEAR(time.ratio->middle, 1.5, 0.08);
  EXPECT_EQ(time.reached, 6);
  EXPECT_EQ(judge_time_to_quality(curves[1], curves[0], Better::lower, 0.04, Clock::wall).label, Speed::slower);
}

TEST(TimeToQuality, ASeedThatNeverGetsThereLeavesNoRatio) {
  std::vector<Curve> baseline(6, curve_of({4, 3, 2})), technique = baseline;
  technique[3] = curve_of({4, 3, 2.5});
  const TimeToQuality time = judge_time_to_quality(baseline, technique, Better::lower, 0.02, Clock::wall);
  EXPECT_EQ(time.reached, 5);
  EXPECT_FALSE(time.ratio);
  EXPECT_EQ(time.label, Speed::undecided);
}

TEST(TimeToQuality, ABaselineThatIsThereAtOnceTellsNothing) {
  std::vector<Curve> baseline(6, curve_of({4, 3, 2})), technique = baseline;
  baseline[2] = technique[2] = curve_of({2, 1, 3});  // ends worse than it began
  const TimeToQuality time = judge_time_to_quality(baseline, technique, Better::lower, 0.02, Clock::wall);
  EXPECT_EQ(time.at_once, 1);
  EXPECT_EQ(time.reached, 6);
  EXPECT_FALSE(time.ratio);
  EXPECT_EQ(time.label, Speed::undecided);
}

TEST(TimeToQuality, TheMarginRelaxesTheTarget) {
  std::vector<Curve> baseline(6, curve_of({4, 3, 2})), technique(6, curve_of({4, 3, 2.01}));
  EXPECT_EQ(judge_time_to_quality(baseline, technique, Better::lower, 0, Clock::wall).reached, 0);
  EXPECT_EQ(judge_time_to_quality(baseline, technique, Better::lower, 0.02, Clock::wall).reached, 6);
  for (auto* curves : {&baseline, &technique}) {
    for (Curve& curve : *curves) {
      for (double& quality : curve.quality) quality = -quality;
    }
  }
  EXPECT_EQ(judge_time_to_quality(baseline, technique, Better::higher, 0, Clock::wall).reached, 0);
  EXPECT_EQ(judge_time_to_quality(baseline, technique, Better::higher, 0.02, Clock::wall).reached, 6);
}

TEST(TimeToQuality, FewSeedsAreUndecided) {
  const std::vector<Curve> five(5, curve_of({4, 3, 2})), one(1, curve_of({4, 3, 2}));
  EXPECT_EQ(judge_time_to_quality(five, five, Better::lower, 0.02, Clock::wall).label, Speed::undecided);
  EXPECT_GT(judge_time_to_quality(five, five, Better::lower, 0.02, Clock::wall).ratio->coverage, 0);
  EXPECT_EQ(judge_time_to_quality(one, one, Better::lower, 0.02, Clock::wall).ratio->coverage, 0);
  EXPECT_THROW(judge_time_to_quality(five, one, Better::lower, 0.02, Clock::wall), std::invalid_argument);
}

struct TimeShares {
  std::map<Speed, double> label;
  double covered = 0, reached = 0;
};

TimeShares simulate_time(int seeds, double own_noise, double speed, int trials = 4000) {
  Random random(20260104);
  TimeShares shares;
  for (int trial = 0; trial < trials; ++trial) {
    const auto curves = trainings(random, seeds, own_noise, speed);
    const TimeToQuality time = judge_time_to_quality(curves[0], curves[1], Better::lower, 0.04, Clock::wall);
    shares.label[time.label] += 1.0 / trials;
    if (!time.ratio) continue;
    shares.reached += 1.0 / trials;
    shares.covered += time.ratio->low <= speed && speed <= time.ratio->high ? 1.0 / trials : 0;
  }
  return shares;
}

// Where evaluations are noisier than the margin the target is a matter of luck; where they are quieter the interval
// holds what it promises.
TEST(TimeToQuality, TheIntervalCoversTheTruth) {
  for (const int seeds : {6, 12}) {
    for (const double speed : {1.0, 1.3}) {
      const TimeShares shares = simulate_time(seeds, 0.004, speed);
      EXPECT_GE(shares.reached, 0.99) << seeds << " seeds, speed " << speed;
      EXPECT_GE(shares.covered / shares.reached, 0.94) << seeds << " seeds, speed " << speed;
    }
  }
}

TEST(TimeToQuality, IdenticalTrainingsAreSeldomCalledDifferent) {
  for (const double own_noise : {0.004, 0.02}) {
    TimeShares shares = simulate_time(6, own_noise, 1);
    EXPECT_LE(shares.label[Speed::faster] + shares.label[Speed::slower], 0.05) << own_noise;
  }
}

TEST(TimeToQuality, AThirdFasterIsFound) { EXPECT_GE(simulate_time(6, 0.004, 1.3).label[Speed::faster], 0.99); }

// --- a case of a result --------------------------------------------------------------------------------------------

TEST(JudgeTraining, SaysQualityAndTimeAndWhatWasExpected) {
  const Result result = sample_training();
  const CaseResult& c = result.cases[0];
  ASSERT_EQ(c.verdicts.size(), 4U);
  const Verdict &same = c.verdicts[0], &worse = c.verdicts[1], &broken = c.verdicts[2], &absent = c.verdicts[3];
  EXPECT_EQ(same.quality->label, "NOT WORSE");
  EXPECT_EQ(same.speed.label, "FASTER");
  EXPECT_EQ(same.as_expected.quality, true);
  EXPECT_EQ(same.as_expected.speed, true);
  EXPECT_EQ(worse.quality->label, "WORSE");
  EXPECT_EQ(worse.as_expected.quality, false);
  EXPECT_EQ(worse.quality->reached, 0);
  EXPECT_FALSE(worse.speed.ratio);
  EXPECT_EQ(broken.quality->label, "INVALID");
  EXPECT_FALSE(broken.quality->difference);
  EXPECT_EQ(absent.quality->label, "SKIPPED");
  EXPECT_FALSE(all_well(c)) << "an unexpected INVALID";
  EXPECT_EQ(seeds_of(c), 6);
  EXPECT_EQ(rounds_of(c), 0);
}

TEST(JudgeTraining, AFileKeepsEverythingThatTheVerdictNeeds) {
  const Result result = sample_training();
  Result read = parse_result(format_result(result), "sample");
  EXPECT_EQ(format_result(read), format_result(result));
  for (Verdict& verdict : read.cases[0].verdicts)
    verdict = {.technique = verdict.technique, .agreement = verdict.agreement};
  judge(read.cases[0]);
  EXPECT_EQ(format_result(read), format_result(result)) << "verdicts can be recomputed";
}

TEST(JudgeTraining, AFileWithoutItsCurvesOrMetricIsRefused) {
  const auto refused = [](const std::function<void(CaseResult&)>& damage) {
    Result result = sample_training();
    damage(result.cases[0]);
    try {
      parse_result(format_result(result), "sample");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([](CaseResult& c) { c.metric.reset(); }), "sample: cases[0].metric: is missing");
  EXPECT_EQ(refused([](CaseResult& c) { c.variants[1].curves.reset(); }),
            "sample: cases[0].variants[1]: has no curves, or no quality 'validation loss'");
  EXPECT_EQ(refused([](CaseResult& c) { c.variants[1].curves->pop_back(); }),
            "sample: cases[0].variants[1]: has another number of seeds");
  EXPECT_EQ(refused([](CaseResult& c) { c.variants[1].curves->front().wall_ns.pop_back(); }),
            "sample: cases[0].variants[1].curves: columns that are empty or not equally long");
  EXPECT_EQ(refused([](CaseResult& c) { c.verdicts[0].quality->label = "FINE"; }),
            "sample: cases[0].verdicts[0]: unknown label 'FINE'");
}

}  // namespace
}  // namespace tenfold
