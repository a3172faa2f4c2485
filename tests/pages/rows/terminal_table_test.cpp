
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/terminal_table.h"
#include "common/pages/rows/verdict_words.h"

#include "tests/support/sample.h"

namespace tenfold {
namespace {

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, display_width(line));
  return widest;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Table, SaysWhatAReaderAsks) {
  const std::string table = format_table(sample_result());
  for (const char* part :
       {"30_gradient_accumulation - Gradient accumulation",
        "Case R2 batch=4: cpu, float32, size cpu, 1 thread, layers=2", "baseline", "SLOWER 0.80", "SMALLER 0.250x",
        "agrees 2.1e-07", "as expected", "trap caught", "skipped: needs a CUDA device", "predicted: speed 0.820x",
        "where the time goes", "validation loss 4.20"}) {
    EXPECT_TRUE(has(table, part)) << part << "\n" << table;
  }
  EXPECT_LE(widest_line(table), 120u) << table;
}

TEST(Table, LongNamesAndReasonsKeepTheWidth) {
  Result result = sample_result();
  for (VariantResult& variant : result.cases[0].variants) {
    variant.reason = std::string(20, 'w') +
                     " because of a reason that goes on and on, with many words, so that it has to be broken into "
                     "several lines of text";
  }
  result.cases[0].verdicts[0].technique = result.cases[0].variants[1].name =
      "a technique whose name says everything there is to say about it";
  result.cases[0].name = "R2 batch=4 with a long name";
  for (int i = 0; i < 12; ++i) result.cases[0].settings["setting" + std::to_string(i)] = int64_t{i};
  EXPECT_LE(widest_line(format_table(result)), 120u) << format_table(result);
  EXPECT_LE(widest_line(format_summary({result})), 120u) << format_summary({result});
  EXPECT_TRUE(has(format_table(result), "a technique whose name says everything there is to say about it"));
}

TEST(Table, ATrainingShowsQualityAndTheTimeToIt) {
  const Result result = sample_training();
  const std::string table = format_table(result), summary = format_summary({result});
  for (const char* part :
       {"Case quality", "6 seeds by wall clock",
        "validation loss, lower is better; margin 0.021 (1.0 % of the baseline's)", "of 6 seeds",
        "NOT WORSE +0.0003 [-0.0031, +0.0038]", "WORSE +0.0793", "FASTER 1.4", "reached by 0 of 6 seeds", "as expected",
        "SURPRISE", "INVALID", "skipped: needs a CUDA device"}) {
    EXPECT_TRUE(has(table, part)) << part << "\n" << table;
  }
  EXPECT_FALSE(has(table, "items/s"));
  EXPECT_LE(widest_line(table), 120u) << table;
  EXPECT_TRUE(has(summary, "time to an equal validation loss")) << summary;
  EXPECT_TRUE(has(summary, "NOT WORSE +0.0003 [-0.0031, +0.0038]")) << summary;
  EXPECT_LE(widest_line(summary), 120u) << summary;
}

TEST(Table, WhyATrainingIsUndecidedStandsBelowItsRow) {
  Result result = sample_training();
  Verdict& verdict = result.cases[0].verdicts[0];
  verdict.quality->at_once = 3;
  verdict.speed = {.label = "UNDECIDED"};
  const std::string reason = "\n      in 3 of 6 seeds the baseline is there at its first evaluation\n";
  for (const std::string& table : {format_table(result), format_summary({result})}) {
    EXPECT_TRUE(has(table, "UNDECIDED  ")) << table;
    EXPECT_TRUE(has(table, reason)) << table;
    EXPECT_LE(widest_line(table), 120u) << table;
  }
}

TEST(Table, ASurveyShowsNotesAndNoVerdicts) {
  Result result = sample_result();
  result.cases[0].kind = "survey";
  const std::string table = format_table(result);
  EXPECT_TRUE(has(table, "micro-batches"));
  EXPECT_FALSE(has(table, "SLOWER"));
  EXPECT_EQ(format_summary({result}), "") << "surveys stay out of the table of verdicts";
}

TEST(Table, ASurveyBesideOneThatTrainsShowsNotes) {
  Result result = sample_result();
  CaseResult counted = result.cases[0];
  counted.name = "counted", counted.kind = "survey";
  result.cases.push_back(counted);
  const std::string table = format_table(result);
  const size_t second = table.find("Case counted");
  ASSERT_NE(second, std::string::npos);
  EXPECT_TRUE(has(table.substr(0, second), "SLOWER"));
  EXPECT_FALSE(has(table.substr(second), "SLOWER"));
  EXPECT_TRUE(has(table.substr(second), "micro-batches"));
  EXPECT_TRUE(has(format_summary({result}), "R2 batch=4"));
  EXPECT_FALSE(has(format_summary({result}), "counted"));
}

TEST(Table, ASurpriseAndAMissedTrapStandOut) {
  Result result = sample_result();
  result.cases[0].variants[1].expected->speed = "FASTER";
  judge(result.cases[0]);
  EXPECT_TRUE(has(format_table(result), "SURPRISE: speed"));
  result.cases[0].variants[1].expected = Expected{"trap"};
  judge(result.cases[0]);
  EXPECT_TRUE(has(format_table(result), "NOT CAUGHT"));
}

TEST(Table, WhatWasStatedIsJudgedPartByPart) {
  Result result = sample_result();
  VariantResult& technique = result.cases[0].variants[1];
  const auto text = [&](const char* speed, const char* memory) {
    technique.expected = Expected{"technique", speed, memory};
    judge(result.cases[0]);
    return expectation_text(technique, result.cases[0].verdicts[0]);
  };
  EXPECT_EQ(text("SLOWER", "SMALLER"), "as expected");
  EXPECT_EQ(text("SLOWER", "ANY"), "speed as expected");
  EXPECT_EQ(text("ANY", "ANY"), "-");
  EXPECT_EQ(text("FASTER", "LARGER"), "SURPRISE");
  EXPECT_EQ(text("SLOWER", "LARGER"), "SURPRISE: memory");
  technique.peak_bytes.clear();
  EXPECT_EQ(text("SLOWER", "SMALLER"), "speed as expected, memory open");
  EXPECT_EQ(text("ANY", "SMALLER"), "memory open");
}

TEST(Table, APredictionThatIsFarOffIsMarked) {
  Result result = sample_result();
  result.cases[0].variants[1].predicted = {1.6, 300'000'000};
  judge(result.cases[0]);
  EXPECT_TRUE(has(format_table(result), "speed 1.60x, error -50 %, off; peak 286 MiB, error -67 %, off"))
      << format_table(result);
  EXPECT_TRUE(has(format_summary({result}), "off"));
}

TEST(Table, ASplitThatIsMissingSaysWhy) {
  Result result = sample_result();
  for (VariantResult& variant : result.cases[0].variants) {
    variant.split.reset();
    variant.environment["split"] = "left out: no GPU activity was traced";
  }
  EXPECT_TRUE(has(format_table(result), "left out: no GPU activity was traced")) << format_table(result);
}

TEST(Table, EnvironmentIsShownWhereItTellsVariantsApart) {
  Result result = sample_result();
  for (VariantResult& variant : result.cases[0].variants) variant.environment = {{"SHARED", "1"}};
  result.cases[0].variants[1].environment["OWN"] = "2";
  const std::string table = format_table(result);
  EXPECT_FALSE(has(table, "SHARED=1"));
  EXPECT_TRUE(has(table, "OWN=2"));
}

TEST(Table, ThroughputIsAllItemsOverAllTime) {
  VariantResult variant;
  EXPECT_EQ(items_per_second(variant), 0);
  variant.blocks = {{.items = 100, .wall_ns = {1'000'000'000, 3'000'000'000}}};
  EXPECT_DOUBLE_EQ(items_per_second(variant), 50) << "not the mean of 100/s and 33/s";
  variant.blocks.push_back({.items = 600, .wall_ns = {4'000'000'000}});
  EXPECT_DOUBLE_EQ(items_per_second(variant), 100);
}

TEST(Humanize, Numbers) {
  EXPECT_EQ(human_number(0), "0");
  EXPECT_EQ(human_number(1234), "1234");
  EXPECT_EQ(human_number(12345), "12.3 k");
  EXPECT_EQ(human_number(9.9996e5), "1.00 M");
  EXPECT_EQ(human_number(0.01234), "0.0123");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1.5 * 1048576), "1.50 MiB");
  EXPECT_EQ(human_bytes(1023.9 * 1024), "1.00 MiB");
  EXPECT_EQ(human_seconds(4.12e-3), "4.12 ms");
  EXPECT_EQ(human_seconds(8.3e-7), "830 ns");
  EXPECT_EQ(human_seconds(125), "2 min 05 s");
  EXPECT_EQ(human_ratio(0.8), "0.800x");
  EXPECT_EQ(human_ratio(0.99999), "1.00x");
  EXPECT_EQ(human_ratio(33.6), "33.6x");
  EXPECT_EQ(human_percent(0.0434), "4.3 %");
  EXPECT_EQ(human_percent(-0.057, true), "-5.7 %");
}

TEST(Humanize, TextKeepsItsWidth) {
  EXPECT_EQ(display_width("h\u00e9llo"), 5u);
  EXPECT_EQ(wrap_text("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(one_line(" a\n\tb\x1b c \n"), "a b c");
}

TEST(Humanize, ANoteSaysItsUnitOnce) {
  EXPECT_EQ(note_text("images", Note{256, "images"}), "256");
  EXPECT_EQ(note_text("repeated images", Note{3, "images"}), "3");
  EXPECT_EQ(note_text("reimages", Note{3, "images"}), "3 images") << "a part of a word is not the unit";
  EXPECT_EQ(note_text("hidden", Note{87, "%"}), "87 %");
  EXPECT_EQ(note_text("bytes sent", Note{2048, "bytes"}), "2.00 KiB") << "the scale is no repetition";
  EXPECT_EQ(note_text("calls", Note{5, ""}), "5");
}

TEST(Humanize, TrimmedTextHasNoBlankEnds) {
  EXPECT_EQ(trimmed(" \t two words \r\n"), "two words");
  EXPECT_EQ(trimmed("as it is"), "as it is");
  EXPECT_EQ(trimmed("\n\t "), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Humanize, NearestWord) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(nearest("tuor", {"tour", "run"}), "tour");
  EXPECT_EQ(nearest("xyzzy", {"tour", "run"}), "");
}

}  // namespace
}  // namespace tenfold
