#include "common/pages/rows/comparison_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/sample.h"

namespace tenfold {
namespace {

bool has_row(const Cells& cells, const std::vector<std::string>& row) {
  return std::find(cells.begin(), cells.end(), row) != cells.end();
}

NotedRow noted(std::vector<ComparedNote> notes) {
  return {.lesson = "45_fused_adamw", .case_name = "counted", .variant = "foreach", .notes = std::move(notes)};
}

TEST(NotedCells, EqualCountsAreOneRowAndAllElseIsNamed) {
  NotedRow row = noted({{"calls", "operators", NoteKind::count, 144, 144},
                        {"moved", "bytes", NoteKind::count, 2048, 2048},
                        {"found after", "steps", NoteKind::count, 72, 80},
                        {"step", "ms", NoteKind::time, 10, 20},
                        {"rate", "GB/s", NoteKind::rate, 10, 5, Interval{9, 11, 10, 0.95}, Interval{4, 6, 5, 0.95}}});
  row.only_b = {"more"};
  row.unlike = "preset quick in A, full in B";
  const Cells cells = noted_cells({row}, kAB);
  ASSERT_EQ(cells.size(), 6U) << in_columns(cells);
  EXPECT_TRUE(has_row(cells, {"45 counted", "2 counts", "-", "-", "-", "equal"}));
  EXPECT_TRUE(has_row(cells, {"45 counted: foreach", "found after", "72 steps", "80 steps", "-",
                              "NOT EQUAL (preset quick in A, full in B)"}))
      << in_columns(cells);
  EXPECT_TRUE(has_row(cells, {"45 counted: foreach", "step", "10 ms", "20 ms", "2.00x", "no interval"}))
      << in_columns(cells);
  EXPECT_TRUE(has_row(cells, {"45 counted: foreach", "rate", "10 GB/s", "5 GB/s", "0.500x", "B is lower"}))
      << in_columns(cells);
  EXPECT_TRUE(has_row(cells, {"45 counted: foreach", "more", "-", "-", "-", "only in B"}));
  EXPECT_EQ(in_columns(noted_cells({}, kAB)), "");
}

TEST(NotedCells, NumbersOfRanksAreToldApart) {
  NotedRow two = noted({{"sent", "bytes", NoteKind::count, 2048, 2048}}), four = two;
  two.ranks = 2, four.ranks = 4;
  const Cells cells = noted_cells({two, four}, kAB);
  EXPECT_TRUE(has_row(cells, {"45 counted, 2 ranks", "1 count", "-", "-", "-", "equal"})) << in_columns(cells);
  EXPECT_TRUE(has_row(cells, {"45 counted, 4 ranks", "1 count", "-", "-", "-", "equal"})) << in_columns(cells);
}

TEST(NotedCells, SidesHaveTheNamesThatTheCommandGives) {
  const Cells cells = noted_cells({noted({{"step", "ms", NoteKind::time, 1, 2}})}, {"theirs", "yours"});
  EXPECT_EQ(cells[0][2] + ", " + cells[0][3] + ", " + cells[0][4], "theirs, yours, yours over theirs");
}

TEST(RefusedLines, RowsOfOneLessonWithOneReasonShareALine) {
  EXPECT_EQ(refused_lines({{"10_a, case, x", "only in B"},
                           {"10_a, case, y", "only in B"},
                           {"10_a, case, z", "is skipped in A"},
                           {"11_b, case, x", "is skipped in A"}}),
            (std::vector<std::string>{"10_a, 2 rows: only in B", "10_a, case, z: is skipped in A",
                                      "11_b, case, x: is skipped in A"}));
}

TEST(ComparedCells, SayWhatBoundsEachRatio) {
  Result b = sample_result();
  for (VariantResult& variant : b.cases[0].variants) speed_up(variant, 2);
  const Cells cells = compared_cells(compare_results({sample_result()}, {b}).rows);
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[2][1], "accumulate");
  EXPECT_EQ(cells[2][2].rfind("2.00x [", 0), 0U) << cells[2][2];
  EXPECT_EQ(cells[2][3], "FASTER");
  EXPECT_EQ(cells[2][6], "device 90 %");
}

Result sweep_of(const std::vector<std::pair<int64_t, double>>& points) {
  Result sweep = sample_sweep(points);
  for (CaseResult& c : sweep.cases) c.settings["length"] = c.sweep->value;
  return sweep;
}

TEST(CompareSweeps, PointsJoinByTheSettingsValue) {
  const ComparedSweeps compared =
      compare_sweeps({sweep_of({{32, 0.8}, {64, 0.9}, {128, 1.5}})}, {sweep_of({{64, 0.7}, {128, 0.9}, {256, 1.2}})});
  ASSERT_EQ(compared.sweeps.size(), 1U);
  const ComparedSweep& sweep = compared.sweeps[0];
  ASSERT_EQ(sweep.points.size(), 2U);
  EXPECT_EQ(sweep.points[0].value + " " + sweep.points[1].value, "64 128");
  EXPECT_EQ(sweep.points[0].speed_a.ratio, 0.9);
  EXPECT_EQ(sweep.points[0].speed_b.ratio, 0.7);
  ASSERT_TRUE(sweep.points[0].throughput);
  EXPECT_NEAR(sweep.points[0].throughput->middle, 1, 1e-9);
  const auto refused = [&](const std::string& part) {
    return std::ranges::any_of(compared.refused, [&](const RefusedRow& row) {
      return row.row.find(part) != std::string::npos && row.reason.find("only in ") == 0;
    });
  };
  EXPECT_TRUE(refused("length=32") && refused("length=256"));
}

TEST(CompareSweeps, EachSideHasItsCrossover) {
  const ComparedSweeps compared =
      compare_sweeps({sweep_of({{64, 0.8}, {128, 1.25}})}, {sweep_of({{64, 1.2}, {128, 1.5}})});
  ASSERT_EQ(compared.sweeps.size(), 1U);
  EXPECT_EQ(compared.sweeps[0].crossover_a, "at 96 (faster from 128)");
  EXPECT_EQ(compared.sweeps[0].crossover_b, "none: faster at every point");
  EXPECT_EQ(crossover_text(sweep_of({{64, 0.8}, {128, 0.7}}).cases, "accumulate"), "none: slower at every point");
  EXPECT_EQ(crossover_text(sweep_of({{64, 1.01}, {128, 1.3}}).cases, "accumulate"), "not decided");
  const Cells cells = swept_cells(compared.sweeps, kAB);
  EXPECT_EQ(cells.back()[3] + " | " + cells.back()[4], "at 96 (faster from 128) | none: faster at every point");
}

TEST(CompareSweeps, OneThatOnlyOneSideHasIsRefusedOnce) {
  Result other = sweep_of({{64, 0.8}, {128, 1.25}});
  other.lesson = "31_other";
  const ComparedSweeps compared = compare_sweeps({sweep_of({{64, 0.8}, {128, 1.25}})}, {other});
  EXPECT_TRUE(compared.sweeps.empty());
  ASSERT_EQ(compared.refused.size(), 2U);
  EXPECT_EQ(compared.refused[0].row, "31_other, sweep of length, case gpt");
  EXPECT_EQ(compared.refused[0].reason, "only in B");
}

}  // namespace
}  // namespace tenfold
