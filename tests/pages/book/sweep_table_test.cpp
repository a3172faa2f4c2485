// Where techniques start to pay, from published sweeps.
#include "common/pages/book/sweep_table.h"

#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/pages/rows/sweeps.h"
#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

const std::filesystem::path kNowhere = "/nowhere";  // no lesson has the code that was measured

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SweepTable, SaysWhereATechniquePays) {
  const std::string table = sweeps_markdown({sample_sweep({{32, 1.1}, {8, 0.5}, {128, 2.0}})}, kNowhere);
  EXPECT_TRUE(has(table, "| gpt | length 8, 32, 128 | 0.500x to 2.00x | 32, 128 | 1.00x to 0.500x | 128 |")) << table;
}

TEST(SweepTable, EverywhereAndNowhereAreWords) {
  EXPECT_TRUE(has(sweeps_markdown({sample_sweep({{8, 1.5}, {32, 1.1}})}, kNowhere), "| everywhere |"));
  EXPECT_TRUE(has(sweeps_markdown({sample_sweep({{8, 0.5}, {32, 0.9}})}, kNowhere), "| nowhere |"));
}

TEST(SweepTable, WhatWasNotDecidedIsNotNowhere) {
  Result sweep = sample_sweep({{8, 1.02}, {32, 1.03}});
  for (CaseResult& c : sweep.cases) {
    c.verdicts[0].speed.label = "AMBIGUOUS";
    c.verdicts[0].memory = {};
  }
  const std::string table = sweeps_markdown({sweep}, kNowhere);
  EXPECT_TRUE(has(table, "| 1.02x to 1.03x | not decided | - | - |")) << table;
  EXPECT_TRUE(has(table, "(stale)")) << table;
}

TEST(SweepTable, OnePointIsNoSweep) {
  EXPECT_EQ(sweeps_markdown({sample_sweep({{8, 0.5}})}, kNowhere), "");
  EXPECT_EQ(sweeps_markdown({}, kNowhere), "");
}

TEST(SweepTable, FilesAreReadByMachineAndDamagedOnesNamed) {
  const test::Scratch scratch;
  const std::filesystem::path& root = scratch.path();
  std::filesystem::create_directories(root / "results" / "box" / "sweeps");
  write_result(root / "results" / "box" / "sweeps" / "30_length_gpt.json", sample_sweep({{8, 0.5}, {32, 0.9}}));
  EXPECT_EQ(published_sweeps(root, "box").size(), 1U);
  EXPECT_EQ(sweep_file("30_gradient_accumulation", "length", "model states"), "30_length_model_states.json");
  EXPECT_EQ(swept_case(sample_sweep({{8, 0.5}}).cases[0]), "gpt");
  EXPECT_TRUE(published_sweeps(root, "another").empty());
  write_atomically(root / "results" / "box" / "sweeps" / "31_length_gpt.json", "{");
  EXPECT_THROW(published_sweeps(root, "box"), FileError);
  write_result(root / "results" / "box" / "sweeps" / "31_length_gpt.json", sample_result());
  EXPECT_THROW(published_sweeps(root, "box"), FileError) << "no points of a sweep";
}

}  // namespace
}  // namespace tenfold
