#include "common/result/compare_notes.h"

#include <gtest/gtest.h>

#include "common/result/compare_results.h"

#include "tests/support/sample.h"

namespace tenfold {
namespace {

VariantResult noting(std::map<std::string, Note> notes) {
  VariantResult look;
  look.name = "look";
  look.notes = std::move(notes);
  return look;
}

/// A survey with one look.
Result survey(const VariantResult& look) {
  Result result = sample_result();
  CaseResult& c = result.cases[0];
  c.name = "counted", c.kind = "survey";
  c.variants = {look};
  c.verdicts.clear();
  return result;
}

TEST(NoteKinds, FollowFromTheUnit) {
  for (const char* unit : {"s", "ms", "us", "ns"}) EXPECT_EQ(note_kind(unit), NoteKind::time) << unit;
  for (const char* unit : {"GB/s", "images/s", "GFLOP/s"}) EXPECT_EQ(note_kind(unit), NoteKind::rate) << unit;
  for (const char* unit : {"x", "%", "% of the updates", "points"}) EXPECT_EQ(note_kind(unit), NoteKind::share) << unit;
  for (const char* unit : {"", "bytes", "calls/step", "of 5", "sectors/request"})
    EXPECT_EQ(note_kind(unit), NoteKind::count) << unit;
}

TEST(CompareNotes, CountsMustBeEqual) {
  const NotedRow row = compare_notes(noting({{"calls", {144, "operators"}}, {"moved", {92.000138840680321, "bytes"}}}),
                                     noting({{"calls", {145, "operators"}}, {"moved", {92.00013884068032, "bytes"}}}));
  ASSERT_EQ(row.notes.size(), 2U);
  EXPECT_EQ(row.notes[0].verdict(), "NOT EQUAL");
  EXPECT_EQ(row.notes[1].verdict(), "equal") << "but for rounding";
  EXPECT_EQ(unequal_counts({row}), 1);
}

TEST(CompareNotes, ATimeWithoutAnIntervalDecidesNothing) {
  const NotedRow row = compare_notes(noting({{"wait", {1, "ms"}}}), noting({{"wait", {100, "ms"}}}));
  EXPECT_EQ(row.notes[0].verdict(), "");
  EXPECT_EQ(row.notes[0].ratio(), 100);
  EXPECT_EQ(unequal_counts({row}), 0);
}

TEST(CompareNotes, ANotedIntervalDecides) {
  const auto step = [](double low, double median, double high) {
    return noting({{"a step: interval low", {low, "ms"}},
                   {"a step: interval high", {high, "ms"}},
                   {"a step: median", {median, "ms"}}});
  };
  const NotedRow apart = compare_notes(step(9, 10, 11), step(14, 15, 16));
  ASSERT_EQ(apart.notes.size(), 1U) << "three notes are one number";
  EXPECT_EQ(apart.notes[0].name, "a step");
  EXPECT_EQ(apart.notes[0].ratio(), 1.5);
  EXPECT_EQ(apart.notes[0].verdict(), "higher");
  EXPECT_EQ(compare_notes(step(9, 10, 11), step(10, 12, 13)).notes[0].verdict(), "intervals meet");
  EXPECT_EQ(compare_notes(step(14, 15, 16), step(9, 10, 11)).notes[0].verdict(), "lower");
}

TEST(CompareNotes, SeedsGiveAnInterval) {
  const auto over_seeds = [](double at) {
    return noting({{"loss left", {at, "%", std::vector<double>{at - 0.1, at, at + 0.1}}}});
  };
  EXPECT_EQ(compare_notes(over_seeds(5), over_seeds(9)).notes[0].verdict(), "higher");
  EXPECT_EQ(compare_notes(over_seeds(5), over_seeds(5.1)).notes[0].verdict(), "intervals meet");
}

TEST(CompareNotes, AnotherUnitIsAnotherNumber) {
  const NotedRow row = compare_notes(noting({{"trace", {1, "bytes"}}}), noting({{"trace", {1, "KiB"}}}));
  EXPECT_TRUE(row.notes.empty());
  EXPECT_EQ(row.only_a, std::vector<std::string>{"trace"});
  EXPECT_EQ(row.only_b, std::vector<std::string>{"trace"});
}

TEST(Compare, SurveysByTheirNotes) {
  const VariantResult look = noting({{"calls", {144, "operators"}}});
  Result b = survey(look);
  b.cases[0].preset = "full";
  const Comparison comparison = compare_results({survey(look)}, {b});
  EXPECT_TRUE(comparison.rows.empty() && comparison.refused.empty());
  ASSERT_EQ(comparison.noted.size(), 1U);
  EXPECT_EQ(comparison.noted[0].variant, "look");
  EXPECT_EQ(comparison.noted[0].unlike, "preset quick in A, full in B");
}

TEST(Compare, UnlikeLooksAreRefused) {
  const VariantResult look = noting({{"calls", {144, "operators"}}});
  const auto reason = [&](auto change, const std::string& across = "") {
    Result b = survey(look);
    change(b.cases[0]);
    const Comparison comparison = compare_results({survey(look)}, {b}, across);
    EXPECT_TRUE(comparison.noted.empty());
    return comparison.refused.empty() ? "" : comparison.refused[0].reason;
  };
  EXPECT_EQ(reason([](CaseResult& c) { c.variants[0].source = "modelled"; }), "is measured in A and modelled in B");
  EXPECT_EQ(reason([](CaseResult& c) { c.threads = 2; }), "only in B: threads is 2 here and 1 there");
  EXPECT_EQ(reason([](CaseResult& c) { c.variants[0].status = "skipped", c.variants[0].reason = "no device"; }),
            "is skipped in B (no device)");
  EXPECT_NE(reason([](CaseResult& c) { c.threads = 2; }, "threads").find("without --across"), std::string::npos);
}

TEST(Compare, LooksAreRefusedAcrossWithinOneFile) {
  const VariantResult look = noting({{"calls", {144, "operators"}}});
  Result result = survey(look);
  Result more = survey(look);
  more.cases[0].ranks = 2;
  result.cases.push_back(more.cases[0]);
  const Comparison comparison = compare_within({result}, "ranks");
  EXPECT_TRUE(comparison.rows.empty() && comparison.noted.empty());
  ASSERT_EQ(comparison.refused.size(), 1U) << "both ranks are one look";
  EXPECT_NE(comparison.refused[0].reason.find("is of a survey"), std::string::npos);
}

// Ranks that take turns make every step slower; how many bytes they send stays what it was.
TEST(Compare, CrowdedRowsHaveCountsAlone) {
  const auto on_four_ranks = [](int64_t cores) {
    Result result = sample_result();
    result.machine.cores = cores;
    CaseResult& c = result.cases[0];
    c.ranks = 4;
    c.mesh = {{"dp", 4}};
    for (VariantResult& variant : c.variants) variant.notes.clear();
    c.variants[1].notes = {{"sent", {2048, "bytes"}}, {"wait", {3, "ms"}}};
    return result;
  };
  const auto names = [](const Comparison& comparison) {
    std::string all;
    for (const NotedRow& row : comparison.noted) {
      EXPECT_EQ(row.ranks, 4);
      for (const ComparedNote& note : row.notes) all += note.name + " ";
    }
    return all;
  };
  EXPECT_EQ(names(compare_results({on_four_ranks(8)}, {on_four_ranks(8)})), "sent wait ");
  EXPECT_EQ(names(compare_results({on_four_ranks(8)}, {on_four_ranks(2)})), "sent ");
}

TEST(Compare, NotesOfTimedRowsAreComparedToo) {
  Result b = sample_result();
  b.cases[0].variants[1].notes["micro-batches"].value = 2;
  const Comparison comparison = compare_results({sample_result()}, {b});
  EXPECT_FALSE(comparison.rows.empty());
  EXPECT_EQ(unequal_counts(comparison.noted), 1);
  b.cases[0].threads = 2;
  const Comparison across = compare_results({sample_result()}, {b}, "threads");
  EXPECT_FALSE(across.rows.empty());
  EXPECT_TRUE(across.noted.empty());
}

}  // namespace
}  // namespace tenfold
