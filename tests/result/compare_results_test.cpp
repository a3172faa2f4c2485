#include "common/result/compare_results.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <tuple>

#include "tests/support/sample.h"

namespace tenfold {
namespace {

const ComparedRow* row_of(const Comparison& comparison, const std::string& variant) {
  for (const ComparedRow& row : comparison.rows) {
    if (row.variant == variant) return &row;
  }
  return nullptr;
}

std::string refusal_of(const Comparison& comparison, const std::string& variant) {
  for (const RefusedRow& refused : comparison.refused) {
    if (refused.row.find(variant) != std::string::npos) return refused.reason;
  }
  return "";
}

TEST(Compare, AMachineTwiceAsFast) {
  const Result a = sample_result();
  Result b = sample_result();
  for (VariantResult& variant : b.cases[0].variants) speed_up(variant, 2);
  b.machine.id = "other", b.started_at = "2027-01-01T00:00:00Z";
  const Comparison comparison = compare_results({a}, {b});
  const ComparedRow* baseline = row_of(comparison, "large batch");
  const ComparedRow* technique = row_of(comparison, "accumulate");
  ASSERT_TRUE(baseline && technique);
  EXPECT_NEAR(technique->throughput->middle, 2, 1e-6);
  EXPECT_LE(technique->throughput->low, 2);
  EXPECT_GE(technique->throughput->high, 2);
  EXPECT_GE(technique->throughput->coverage, 0.95);
  EXPECT_EQ(technique->throughput_label, Speed::faster);
  ASSERT_TRUE(technique->gain.has_value());
  EXPECT_NEAR(technique->gain->middle, 1, 1e-6) << "the machine is faster, the technique gains as much as before";
  EXPECT_FALSE(baseline->gain.has_value());
  EXPECT_EQ(technique->bound_a, "device 90 %");
  EXPECT_EQ(refusal_of(comparison, "zeroes every micro-batch").rfind("is invalid in A", 0), 0u);
  EXPECT_EQ(refusal_of(comparison, "on a GPU").rfind("is skipped in A", 0), 0u);
}

TEST(Compare, TrainingsByTheirQuality) {
  const Result a = sample_training();
  Result b = sample_training();
  for (double& quality : b.cases[0].variants[1].quality.at("validation loss")) quality += 0.25;
  const Comparison comparison = compare_results({a}, {b});
  ASSERT_EQ(comparison.rows.size(), 3U) << "what failed or was skipped is refused";
  const ComparedRow *same = row_of(comparison, "fp32"), *higher = row_of(comparison, "bf16");
  ASSERT_TRUE(same && higher);
  EXPECT_FALSE(higher->throughput);
  EXPECT_EQ(same->quality->middle, 0);
  EXPECT_NEAR(higher->quality->middle, 0.25, 1e-9);
  EXPECT_NEAR(higher->quality->high, 0.25, 1e-9) << "the seeds are paired";
  EXPECT_EQ(higher->metric.name, "validation loss");
  b = sample_training();
  b.cases[0].seed += 5;
  EXPECT_TRUE(compare_results({a}, {b}).rows.empty()) << "one seed in common";
  EXPECT_NE(refusal_of(compare_results({a}, {b}), "fp32").find("other seeds"), std::string::npos);
  b = sample_training();
  b.cases[0].seed += 4;
  EXPECT_EQ(compare_results({a}, {b}).rows.size(), 3U) << "two seeds in common";
  b = sample_training();
  b.cases[0].metric->name = "accuracy";
  for (VariantResult& variant : b.cases[0].variants) variant.quality["accuracy"] = variant.quality["validation loss"];
  EXPECT_NE(refusal_of(compare_results({a}, {b}), "fp32").find("metric"), std::string::npos);
}

TEST(Compare, UnlikeRowsAreRefusedWithWhatDiffers) {
  const Result a = sample_result();
  const auto reason = [&](auto change) {
    Result b = sample_result();
    change(b, b.cases[0]);
    const Comparison comparison = compare_results({a}, {b});
    EXPECT_TRUE(comparison.rows.empty());
    return refusal_of(comparison, "accumulate");
  };
  EXPECT_EQ(reason([](Result&, CaseResult& c) { c.settings["batch"] = int64_t{8}; }),
            "only in B: settings is batch=8 layers=2 here and batch=4 layers=2 there");
  EXPECT_EQ(reason([](Result&, CaseResult& c) { c.device = "cuda"; }), "only in B: device is cuda here and cpu there");
  EXPECT_EQ(reason([](Result&, CaseResult& c) { c.threads = 2; }), "only in B: threads is 2 here and 1 there");
  EXPECT_EQ(reason([](Result&, CaseResult& c) { c.dtype = "bfloat16"; }),
            "only in B: dtype is bfloat16 here and float32 there");
  EXPECT_EQ(reason([](Result&, CaseResult& c) { c.backend = ""; }), "only in B: backend is none here and gloo there");
  EXPECT_EQ(reason([](Result& r, CaseResult&) { r.lesson_version = 2; }),
            "only in B: lesson version is 2 here and 1 there");
  EXPECT_EQ(reason([](Result& r, CaseResult&) { r.lesson = "31_x"; }),
            "only in B: the other side has no such lesson or variant");
}

TEST(Compare, ARowThatOccursTwiceIsNotGuessed) {
  const Result a = sample_result();
  const Comparison comparison = compare_results({a, a}, {a});
  EXPECT_TRUE(comparison.rows.empty());
  EXPECT_NE(refusal_of(comparison, "accumulate").find("more than once"), std::string::npos);
}

TEST(Compare, FewRoundsClaimNothing) {
  Result b = sample_result();
  for (VariantResult& variant : b.cases[0].variants) {
    for (Blocks& blocks : variant.blocks) {
      for (auto* column : {&blocks.build, &blocks.position, &blocks.wall_ns, &blocks.processor_ns}) column->resize(4);
    }
  }
  const Comparison comparison = compare_results({sample_result()}, {b});
  ASSERT_NE(row_of(comparison, "accumulate"), nullptr);
  EXPECT_EQ(row_of(comparison, "accumulate")->throughput_label, Speed::undecided);
}

TEST(Compare, NoiseOfEitherSideRaisesTheBar) {
  const Result a = sample_result();
  Result b = sample_result();
  speed_up(b.cases[0].variants[1], 1.1);
  EXPECT_EQ(row_of(compare_results({a}, {b}), "accumulate")->throughput_label, Speed::faster);
  b.cases[0].noise = 0.2;
  EXPECT_EQ(row_of(compare_results({a}, {b}), "accumulate")->throughput_label, Speed::ambiguous);
}

TEST(Compare, AcrossThreadsGivesTheEfficiency) {
  const Result a = sample_result();
  Result b = sample_result();
  for (VariantResult& variant : b.cases[0].variants) speed_up(variant, 3);
  b.cases[0].threads = 4 * a.cases[0].threads;
  const ComparedRow* row = nullptr;
  const Comparison comparison = compare_results({a}, {b}, "threads");
  row = row_of(comparison, "accumulate");
  ASSERT_NE(row, nullptr) << refusal_of(comparison, "accumulate");
  EXPECT_NEAR(row->throughput->middle, 3, 1e-6);
  ASSERT_TRUE(row->efficiency);
  EXPECT_NEAR(row->efficiency->middle, 0.75, 1e-6);
  EXPECT_EQ(row->across_a + " " + row->across_b, "1 4");
  EXPECT_TRUE(row_of(comparison, "large batch")->efficiency) << "a baseline has the threads, too";
}

TEST(Compare, AcrossOnePartEverythingElseMustBeEqual) {
  const Result a = sample_result();
  const auto reason = [&](const std::string& across, auto change) {
    Result b = sample_result();
    change(b.cases[0]);
    return refusal_of(compare_results({a}, {b}, across), "accumulate");
  };
  EXPECT_EQ(reason("ranks",
                   [](CaseResult& c) {
                     c.ranks = 8;
                     c.backend = "nccl";
                   }),
            "");
  EXPECT_EQ(reason("size",
                   [](CaseResult& c) {
                     c.size = "gpu8";
                     c.settings["batch"] = int64_t{64};
                   }),
            "");
  EXPECT_NE(reason("device",
                   [](CaseResult& c) {
                     c.device = "cuda";
                     c.threads = 2;
                   })
                .find("threads is 2 here and 1 there"),
            std::string::npos);
  EXPECT_EQ(reason("threads", [](CaseResult&) {}), "threads is 1 on both sides; nothing differs to compare across");
}

/// The sample on so many ranks, `times` as fast, whose step has `items` times as many items; cores enough for all.
Result on_ranks(int ranks, double times, int64_t items = 1) {
  Result result = sample_result();
  result.machine.cores = 8;
  CaseResult& c = result.cases[0];
  c.ranks = ranks;
  c.mesh = {{"dp", ranks}};
  for (VariantResult& variant : c.variants) {
    speed_up(variant, times / static_cast<double>(items));
    for (Blocks& blocks : variant.blocks) blocks.items *= items;
  }
  return result;
}

/// What one start for each number of ranks leaves.
Result with_cases_of(Result result, const std::vector<Result>& others) {
  for (const Result& other : others) result.cases.push_back(other.cases[0]);
  return result;
}

TEST(CompareWithin, EachNumberOfRanksAgainstTheFewest) {
  const Result result = with_cases_of(on_ranks(2, 1.6), {on_ranks(1, 1), on_ranks(4, 2)});
  const Comparison comparison = compare_within({result}, "ranks");
  std::vector<const ComparedRow*> rows, baselines;
  for (const ComparedRow& row : comparison.rows) (row.baseline ? baselines : rows).push_back(&row);
  ASSERT_EQ(rows.size(), 2U);
  ASSERT_EQ(baselines.size(), 2U);
  for (const auto& [row, ranks, times] : {std::tuple{rows[0], 2, 1.6}, std::tuple{rows[1], 4, 2.0}}) {
    EXPECT_EQ(row->across_a + " " + row->across_b, "1 " + std::to_string(ranks));
    EXPECT_EQ(row->scaling, "strong");
    EXPECT_FALSE(row->crowded);
    EXPECT_NEAR(row->throughput->middle, times, 1e-6);
    ASSERT_TRUE(row->efficiency);
    EXPECT_NEAR(row->efficiency->middle, times / ranks, 1e-6);
    EXPECT_NEAR(row->efficiency->low, row->throughput->low / ranks, 1e-9);
    EXPECT_NEAR(row->efficiency->high, row->throughput->high / ranks, 1e-9);
    EXPECT_EQ(row->efficiency->coverage, row->throughput->coverage);
  }
  for (const ComparedRow* baseline : baselines) {
    EXPECT_TRUE(baseline->throughput);
    EXPECT_FALSE(baseline->efficiency) << "one process, however many ranks there are";
  }
  EXPECT_EQ(refusal_of(comparison, "on a GPU").rfind("is skipped with ranks 1 (needs a CUDA device)", 0), 0U);
}

TEST(CompareWithin, WeakScalingIsTheSameBatchOnEachRank) {
  const auto row = [](const Result& more) {
    const Comparison comparison = compare_within({with_cases_of(on_ranks(1, 1), {more})}, "ranks");
    const ComparedRow* found = row_of(comparison, "accumulate");
    return found != nullptr ? std::pair(found->scaling, found->efficiency->middle)
                            : std::pair(refusal_of(comparison, "accumulate"), 0.0);
  };
  EXPECT_EQ(row(on_ranks(4, 3, 4)).first, "weak");
  EXPECT_NEAR(row(on_ranks(4, 3, 4)).second, 0.75, 1e-6);
  EXPECT_EQ(row(on_ranks(4, 3, 2)).first,
            "a step's items are neither as many with ranks 1 as with ranks 4 nor as many on each rank");
}

// Ranks that take turns would show a machine without a core for each.
TEST(CompareWithin, CrowdedRanksHaveNoSpeed) {
  Result result = with_cases_of(on_ranks(1, 1), {on_ranks(2, 1.6), on_ranks(4, 1.7)});
  result.machine.cores = 2;
  const Comparison comparison = compare_within({result}, "ranks");
  int crowded = 0;
  for (const ComparedRow& row : comparison.rows) {
    EXPECT_EQ(row.crowded, row.across_b == "4");
    EXPECT_EQ(row.throughput.has_value(), !row.crowded);
    EXPECT_EQ(row.efficiency.has_value(), !row.crowded && !row.baseline);
    EXPECT_TRUE(row.peak_a && row.peak_b) << "bytes are bytes";
    crowded += row.crowded ? 1 : 0;
  }
  EXPECT_EQ(crowded, 2);
}

TEST(CompareWithin, TheFirstThatCanBeComparedIsWhatOthersAreComparedWith) {
  Result alone = on_ranks(1, 1);
  VariantResult& skipped = alone.cases[0].variants[1];
  skipped = VariantResult{.name = skipped.name, .status = "skipped", .reason = "needs two ranks"};
  const Comparison comparison = compare_within({with_cases_of(alone, {on_ranks(4, 2), on_ranks(2, 1.5)})}, "ranks");
  const ComparedRow* row = row_of(comparison, "accumulate");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->across_a + " " + row->across_b, "2 4");
  EXPECT_EQ(refusal_of(comparison, "accumulate"), "is skipped with ranks 1 (needs two ranks)");
}

TEST(CompareWithin, WhatCannotBeJoinedIsSaid) {
  const auto said = [](const std::vector<Result>& results) {
    const Comparison comparison = compare_within(results, "ranks");
    EXPECT_TRUE(comparison.rows.empty());
    return refusal_of(comparison, "accumulate");
  };
  EXPECT_EQ(said({on_ranks(2, 1)}), "ranks is 2 only; there is nothing to compare across");
  EXPECT_EQ(said({on_ranks(1, 1), on_ranks(1, 1)}), "occurs more than once with equal ranks; name single files");
  Result other = on_ranks(2, 1);
  other.machine.id = "another";
  EXPECT_EQ(said({on_ranks(1, 1), other}), "ranks is 1 only; there is nothing to compare across")
      << "two machines tell nothing of ranks";
}

TEST(Compare, CrowdedRanksOfTwoMachinesAreNotComparedBySpeed) {
  Result a = on_ranks(4, 1), b = on_ranks(4, 2);
  EXPECT_TRUE(row_of(compare_results({a}, {b}), "accumulate")->throughput);
  b.machine.cores = 2;
  const Comparison comparison = compare_results({a}, {b});
  EXPECT_TRUE(row_of(comparison, "accumulate")->crowded);
  EXPECT_FALSE(row_of(comparison, "accumulate")->throughput);
}

TEST(Compare, PeaksStandBesideTheSpeed) {
  const Result a = sample_result();
  const Comparison comparison = compare_results({a}, {a});
  const ComparedRow* row = row_of(comparison, "accumulate");
  ASSERT_TRUE(row != nullptr && row->peak_a && row->peak_b);
  EXPECT_EQ(*row->peak_a, *a.cases[0].variants[1].peak());
}

// The interval of two independent samples must hold the true ratio at least as often as it says.
TEST(Compare, DryGpusAreComparedByTheirPeaks) {
  const Result t4 = sample_dry_result("T4", 16);
  Result h100 = sample_dry_result("H100");
  for (VariantResult& variant : h100.cases[0].variants) {
    for (auto& [kind, bytes] : variant.peak_bytes) bytes *= 2;
  }
  const Comparison comparison = compare_results({t4}, {h100});
  const ComparedRow* technique = row_of(comparison, "accumulate");
  ASSERT_TRUE(technique);
  EXPECT_FALSE(technique->throughput.has_value()) << "nothing was timed";
  EXPECT_EQ(*technique->peak_b, 2 * *technique->peak_a);
}

TEST(Compare, DryGpusWhoseTimesWereModelledAreComparedByThem) {
  const Result t4 = sample_modelled_result("T4", 16);
  Result h100 = sample_modelled_result("H100");
  for (VariantResult& variant : h100.cases[0].variants) speed_up(variant, 3);
  const Comparison comparison = compare_results({t4}, {h100});
  const ComparedRow* technique = row_of(comparison, "accumulate");
  ASSERT_TRUE(technique && technique->throughput);
  EXPECT_NEAR(technique->throughput->middle, 3, 1e-6);
}

TEST(Compare, ADryRowHasNoPartnerAmongMeasuredOnes) {
  Result measured = sample_result();
  measured.cases[0].device = "cuda", measured.cases[0].size = "gpu80";
  const Comparison comparison = compare_results({measured}, {sample_dry_result()});
  EXPECT_TRUE(comparison.rows.empty());
  EXPECT_NE(refusal_of(comparison, "accumulate").find("device is dry here and cuda there"), std::string::npos)
      << refusal_of(comparison, "accumulate");
  // Nor across devices, where the device may differ.
  const Comparison across = compare_results({measured}, {sample_modelled_result()}, "device");
  EXPECT_TRUE(across.rows.empty());
  EXPECT_NE(refusal_of(across, "accumulate").find("./tenfold score"), std::string::npos);
}

TEST(IndependentRatio, CoversTheTrueRatio) {
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> noise(0, 0.05);
  const int trials = 5000;
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> a(12), b(12);
    for (double& value : a) value = 100 * noise(random);
    for (double& value : b) value = 140 * noise(random);
    const Interval interval = independent_ratio(a, b);
    covered += interval.low <= 1.4 && 1.4 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(static_cast<double>(covered) / trials, 0.95);
}

TEST(IndependentRatio, RefusesNonsense) {
  EXPECT_THROW(independent_ratio({}, {1}), std::invalid_argument);
  EXPECT_THROW(independent_ratio({0, 1, 2}, {1, 2, 3}), std::invalid_argument);
}

TEST(BoundOf, NamesTheLargestPart) {
  EXPECT_EQ(bound_of(std::nullopt), "");
  EXPECT_EQ(bound_of(Split{0, 0, 0, 0, 0}), "");
  EXPECT_EQ(bound_of(Split{0.6, 0.1, 0.2, 0.1, 0}), "data 60 %");
}

}  // namespace
}  // namespace tenfold
