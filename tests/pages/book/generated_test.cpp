#include "common/pages/book/generated.h"
#include "common/pages/book/lesson_map.h"
#include "common/pages/book/line_diff.h"
#include "common/pages/book/measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/result/code_hash.h"

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Generated : public testing::Test {
 protected:
  Generated() {
    write("README.md", "# Root\n<!-- tenfold:begin lessons -->\nstale text\n<!-- tenfold:end -->\nafter\n");
    write("docs/method.md", "no marker\n");
    write("lessons/30_gradient_accumulation/lesson.cpp", "/// Does it.\nint technique(int a) {\n  return a;\n}\n");
    write("lessons/30_gradient_accumulation/README.md",
          "before\n<!-- tenfold:begin code lesson.cpp technique -->\n<!-- tenfold:end -->\nbetween\n"
          "<!-- tenfold:begin measured -->\n<!-- tenfold:end -->\nafter\n");
  }
  void write(const std::string& name, const std::string& text) const { test::write_text(root_ / name, text); }
  void publish(bool current) {
    Result result = sample_result();
    result.code_hash = current ? code_hash(root_ / "lessons" / result.lesson) : std::string(64, '0');
    write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  }
  std::string page(const std::string& name) const {
    for (const GeneratedFile& file : generate_documents(root_, lessons_)) {
      if (file.path == root_ / name) return file.text;
    }
    return "";
  }
  std::string complaint() const {
    return test::message_of<FileError>([&] { generate_documents(root_, lessons_); });
  }
  test::Scratch scratch_;
  fs::path root_ = scratch_.path();
  std::vector<LessonEntry> lessons_ = {
      {"30_gradient_accumulation", "Gradient | accumulation", "How much?", "R2", false}};
};

TEST_F(Generated, CodeIsCutFromTheSource) {
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"),
                  "before\n<!-- tenfold:begin code lesson.cpp technique -->\n```cpp\n// lesson.cpp\n/// Does it.\nint "
                  "technique(int a) {\n"
                  "  return a;\n}\n```\n<!-- tenfold:end -->\nbetween\n"));
}

TEST_F(Generated, TwoMachinesSideBySide) {
  Result a = sample_result(), b = sample_result();
  b.machine.id = "other-machine", b.machine.ceilings["cpu_copy_bytes_per_s"] = 2e10;
  for (VariantResult& variant : b.cases[0].variants) speed_up(variant, 2);
  b.cases[0].variants[1].notes["micro-batches"].value = 3;
  for (const Result& result : {a, b})
    write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const auto part = [&](const std::string& words) {
    write("docs/page.md", "<!-- tenfold:begin compared " + words + " -->\n<!-- tenfold:end -->\n");
    return page("docs/page.md");
  };
  EXPECT_TRUE(has(part("card 2x-sample-cpu other-machine"), "| cpu copy | 10 GB/s | - | 20 GB/s | - | 2.00x |"));
  EXPECT_TRUE(has(part("rows 2x-sample-cpu other-machine"), "| accumulate | 2.00x ["));
  EXPECT_TRUE(has(part("noted 2x-sample-cpu other-machine"), "| NOT EQUAL |"));
  EXPECT_TRUE(has(part("sweeps 2x-sample-cpu other-machine"), "Nothing was measured alike on both."));
  EXPECT_TRUE(has(part("refused 2x-sample-cpu other-machine"), "2 rows are compared, 2 are not"));
  for (const auto& [words, why] : {std::pair("card 2x-sample-cpu nowhere", "results/nowhere holds no result"),
                                   {"card 2x-sample-cpu", "and two machines"},
                                   {"colour 2x-sample-cpu other-machine", "colour is no part of a comparison"}}) {
    write("docs/page.md", std::string("<!-- tenfold:begin compared ") + words + " -->\n<!-- tenfold:end -->\n");
    EXPECT_TRUE(has(complaint(), why)) << complaint();
  }
}

TEST_F(Generated, PythonIsCutAsPython) {
  write("lessons/30_gradient_accumulation/twin.py", "# region technique\nimport torch\n# endregion\n");
  write("lessons/30_gradient_accumulation/README.md",
        "<!-- tenfold:begin code twin.py technique -->\n<!-- tenfold:end -->\n");
  EXPECT_EQ(page("lessons/30_gradient_accumulation/README.md"),
            "<!-- tenfold:begin code twin.py technique -->\n```python\n# twin.py\nimport torch\n```\n"
            "<!-- tenfold:end -->\n");
  write("lessons/30_gradient_accumulation/twin.py", "# region technique\nimport torch\n");
  EXPECT_THAT(complaint(), testing::HasSubstr("README.md:1: code: twin.py has no '# endregion'"));
}

TEST_F(Generated, AChangeIsShownAsOne) {
  write("lessons/30_gradient_accumulation/lesson.cpp",
        "/// Without.\nint plain(int a) {\n  a += 1;\n\n  return a;\n}\n"
        "/// With.\nint better(int a) {\n  a += 1;\n\n  a *= 2;\n  return a;\n}\n");
  write("lessons/30_gradient_accumulation/README.md",
        "<!-- tenfold:begin diff lesson.cpp plain better -->\n<!-- tenfold:end -->\n");
  EXPECT_TRUE(
      has(page("lessons/30_gradient_accumulation/README.md"),
          "```diff\n // lesson.cpp, from plain() to better()\n int step(int a) {\n   a += 1;\n\n+  a *= 2;\n   return "
          "a;\n }\n```\n"))
      << page("lessons/30_gradient_accumulation/README.md");
  // Where a signature breaks depends on the name, and is no change.
  write(
      "lessons/30_gradient_accumulation/lesson.cpp",
      "int plain(int a,\n          int b) {\n  return a;\n}\nint better(int a,\n           int b) {\n  return b;\n}\n");
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"),
                  " int step(int a, int b) {\n-  return a;\n+  return b;\n }\n"))
      << page("lessons/30_gradient_accumulation/README.md");
  write("lessons/30_gradient_accumulation/README.md",
        "<!-- tenfold:begin diff lesson.cpp plain -->\n<!-- tenfold:end -->\n");
  EXPECT_TRUE(has(complaint(), "diff needs a file and two symbols"));
}

TEST_F(Generated, LongCodeIsFolded) {
  std::string body;
  for (int i = 0; i < 60; ++i) body += "  a += " + std::to_string(i) + ";\n";
  write("lessons/30_gradient_accumulation/lesson.cpp", "int technique(int a) {\n" + body + "  return a;\n}\n");
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "-->\n<details><summary>lesson.cpp: technique (63 lines)</summary>\n\n```cpp\n")) << text;
  EXPECT_TRUE(has(text, "}\n```\n\n</details>\n<!-- tenfold:end -->")) << text;
}

// One text behind two folds is two clicks, under two titles.
TEST_F(Generated, LongCodeInAFoldIsNotFoldedAgain) {
  std::string body;
  for (int i = 0; i < 60; ++i) body += "  a += " + std::to_string(i) + ";\n";
  write("lessons/30_gradient_accumulation/lesson.cpp", "int technique(int a) {\n" + body + "  return a;\n}\n");
  const std::string listing = "<!-- tenfold:begin code lesson.cpp technique -->\n<!-- tenfold:end -->\n";
  const std::string readme = "lessons/30_gradient_accumulation/README.md";
  write(readme, "<details><summary>All of it</summary>\n\n" + listing + "\n</details>\n\n" + listing);
  const std::string text = page(readme);
  EXPECT_TRUE(has(text, "technique -->\n```cpp\n// lesson.cpp\n")) << text;
  EXPECT_TRUE(has(text, "}\n```\n<!-- tenfold:end -->\n\n</details>\n\n<!-- tenfold:begin")) << text;
  EXPECT_TRUE(has(text, "-->\n<details><summary>lesson.cpp: technique (63 lines)</summary>")) << "behind the fold";
}

TEST(LineDiff, MarksAsLittleAsPossible) {
  EXPECT_EQ(line_diff("a\nb\nc\n", "a\nx\nc\n"), " a\n-b\n+x\n c\n");
  EXPECT_EQ(line_diff("a\nb\n", "b\n"), "-a\n b\n");
  EXPECT_EQ(line_diff("", "b\n"), "+b\n");
  EXPECT_EQ(line_diff("a\n", ""), "-a\n");
}

TEST_F(Generated, NothingMeasuredIsSaid) {
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "Not yet measured on any machine."));
  const std::string root = page("README.md");
  EXPECT_TRUE(
      has(root, "| 30 | [Gradient \\| accumulation](lessons/30_gradient_accumulation/README.md) | How much? |\n"))
      << root;
  EXPECT_TRUE(has(page("docs/results.md"),
                  "| 30 | [Gradient \\| accumulation](../lessons/30_gradient_accumulation/README.md) | How much? | not "
                  "yet measured |\n"))
      << page("docs/results.md");
  EXPECT_TRUE(has(root, "after\n"));
  EXPECT_FALSE(has(root, "stale text"));
}

TEST_F(Generated, MeasuredRowsAndWhatIsMissing) {
  publish(true);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text,
                  "<details><summary>What a step asks of collectives: bytes, calls, predicted</summary>\n\n"
                  "| variant | all-reduce |\n|---|---:|\n| large batch; accumulate | 4.00 KiB |\n"))
      << text;
  EXPECT_FALSE(has(text, "asked of all-reduce")) << "the table has it";
  EXPECT_TRUE(has(text, "SLOWER 0.80")) << text;
  EXPECT_TRUE(has(text, "| trap caught |"));
  EXPECT_TRUE(has(text, "2026-01-02, commit bbbbbbbbbb"));
  EXPECT_TRUE(has(text, "On a GPU: not yet measured."));
  // What a GPU has timed is a kernel's page's, and no case of the lesson.
  const std::string lesson = "lessons/30_gradient_accumulation/README.md", kept = read_text(root_ / lesson);
  const auto about = [&](const std::string& kernel) {
    write(lesson, kept + "<!-- tenfold:begin modelled " + kernel + " -->\n<!-- tenfold:end -->\n");
    return page(lesson);
  };
  write(
      "results/compiler/kernel_times.json",
      R"({"schema": "tenfold.kernel_times/2", "gpus": {}, "kernels": [{"kernel": "copy", "operation": "copy", "date": )"
      R"("2026", "type": "float", "shape": "8", "rungs": []}, {"kernel": "add", "operation": "add", "date": "2026", )"
      R"("type": "float", "shape": "8", "rungs": []}]})");
  write(
      "results/h200/bench/copy.json",
      R"({"context": {"gpu": "NVIDIA H200", "commit": "1", "date": "2"}, "benchmarks": [{"name": "copy, Float, 8/rung)"
      R"( 0/cold", "run_type": "iteration", "real_time": 1, "time_unit": "us", "bytes/s": 1}]})");
  EXPECT_TRUE(
      has(about("copy"),
          "On a GPU: not yet measured, but for [copy, rung by rung, on h200](../../kernels/copy/README.md#timed)."))
      << page(lesson);
  EXPECT_TRUE(has(about("add"), "On a GPU: not yet measured.")) << "no report is of this kernel";
  EXPECT_FALSE(has(text, "stale"));
  EXPECT_TRUE(has(page("docs/results.md"), "## 2x-sample-cpu"));
  EXPECT_TRUE(has(page("docs/results.md"), "| question | on a CPU |\n")) << "nobody needs a column that says nothing";
}

TEST_F(Generated, TheFirstResultOfAGpuBringsItsColumn) {
  Result result = sample_result();
  for (CaseResult& c : result.cases) c.device = "cuda";
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string root = page("docs/results.md");
  EXPECT_TRUE(has(root, "| question | on a CPU | on a GPU |\n")) << root;
  EXPECT_TRUE(has(root, "| not yet measured | accumulate: speed SLOWER 0.80")) << root;
}

TEST_F(Generated, APageSpeaksOfOneMachine) {
  const std::string page_name = "lessons/30_gradient_accumulation/README.md";
  publish(true);
  Result other = sample_result();
  other.machine.id = "another";
  other.code_hash = code_hash(root_ / "lessons" / other.lesson);
  write_result(root_ / "results" / other.machine.id / (other.lesson + ".json"), other);
  EXPECT_TRUE(has(page(page_name), "**another**") && has(page(page_name), "**2x-sample-cpu**")) << "none is preferred";
  write("results/REFERENCE", "2x-sample-cpu\nanother\n");
  EXPECT_FALSE(has(page(page_name), "**another**")) << page(page_name);
  EXPECT_TRUE(has(page(page_name), "Measured on another, too: [results](../../docs/results.md).")) << page(page_name);
  publish(false);
  EXPECT_TRUE(has(page(page_name), "**another**") && !has(page(page_name), "stale")) << page(page_name);
  for (CaseResult& c : other.cases) c.device = "cuda";
  write_result(root_ / "results" / other.machine.id / (other.lesson + ".json"), other);
  publish(true);
  EXPECT_TRUE(has(page(page_name), "**another**") && has(page(page_name), "**2x-sample-cpu**")) << "a GPU's is shown";
}

TEST(LessonMap, ReadsWhatAPageSays) {
  const Preparation one = preparation_of(
      "# 31\n\nBefore this: [30](../30_x/README.md), [docs/a.md](../../docs/a.md). 15 minutes to read; trains "
      "nothing;\n"
      "`./tenfold run 31` takes half a\nminute and needs no GPU; see [b](c). Difficulty: hard.\n\n## The idea\n");
  EXPECT_EQ(one.before, (std::vector<std::string>{"[30](../30_x/README.md)", "[docs/a.md](../../docs/a.md)"}));
  EXPECT_EQ(one.reading, "15 minutes");
  EXPECT_EQ(one.running, "half a minute");
  EXPECT_EQ(one.difficulty, "hard");
}

TEST_F(Generated, TheMapIsWhatThePagesSay) {
  const auto with = [&](const std::string& paragraph) {
    write("lessons/30_gradient_accumulation/README.md", "# 30\n\n" + paragraph + "\n\n## The idea\n");
    write("docs/lessons.md", "mine\n<!-- tenfold:begin map -->\nstale\n<!-- tenfold:end -->\nmine, too\n");
  };
  const std::string runs = "10 minutes to read; `./tenfold run 30` takes 2 minutes and needs no GPU. ";
  lessons_[0].core = true;
  with("Before this: [00](../00_measuring/README.md). " + runs + "Difficulty: easy.");
  EXPECT_EQ(page("docs/lessons.md"),
            "mine\n<!-- tenfold:begin map -->\n"
            "| | lesson | before it | to read | to run | difficulty | in `tour` |\n"
            "|---|---|---|---:|---:|---|---|\n"
            "| 30 | [Gradient \\| accumulation](../lessons/30_gradient_accumulation/README.md) | "
            "[00](../lessons/00_measuring/README.md) | 10 minutes | 2 minutes | easy | yes |\n"
            "<!-- tenfold:end -->\nmine, too\n");
  lessons_[0].core = false;
  with("Before this: none. " + runs + "Difficulty: easy.");
  EXPECT_TRUE(has(page("docs/lessons.md"), " | - | 10 minutes | 2 minutes | easy | |\n")) << page("docs/lessons.md");
  with("After this: nothing.");
  EXPECT_TRUE(has(complaint(), "30_gradient_accumulation/README.md: has no line 'Before this: ...'")) << complaint();
  with("Before this: none. " + runs + "Difficulty: mad.");
  EXPECT_TRUE(has(complaint(), "does not say 'Difficulty: easy.'")) << complaint();
  with("Before this: courage. " + runs + "Difficulty: easy.");
  EXPECT_TRUE(has(complaint(), "does not say 'none.'")) << complaint();
  with("Before this: none. `./tenfold run 30` takes 2 minutes. Difficulty: easy.");
  EXPECT_TRUE(has(complaint(), "does not say '10 minutes to read'")) << complaint();
  with("Before this: none. 10 minutes to read. Difficulty: easy.");
  EXPECT_TRUE(has(complaint(), "takes half a minute'")) << complaint();
}

TEST_F(Generated, ASurveyHasItsNotesInATableOfTheirOwn) {
  Result result = sample_result();
  CaseResult counted = result.cases[0];
  counted.name = "counted", counted.kind = "survey", counted.verdicts.clear();
  result.cases.push_back(counted);
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "\n**R2 batch=4**: ")) << text;
  EXPECT_TRUE(has(text, "\n| accumulate | ")) << text;
  EXPECT_TRUE(has(text, "*accumulate*: micro-batches")) << text;
  EXPECT_LT(text.find("\n**R2 batch=4**: "), text.find("\n**counted**: ")) << "what compares nothing comes last";
}

TEST_F(Generated, ASurveyWithoutSettingsHasItsNameAlone) {
  Result result = sample_result();
  CaseResult counted = result.cases[0];
  counted.name = "counted", counted.kind = "survey", counted.settings.clear(), counted.verdicts.clear();
  VariantResult look;
  look.name = "a look", look.notes = {{"bytes", {64, "bytes"}}};
  counted.variants = {look}, counted.noise.reset();
  result.cases = {counted};
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "\n**counted**.\n")) << text;
}

TEST_F(Generated, EachCaseSaysWhatItRanAndHowNoisyItWas) {
  publish(true);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  const size_t begin = text.find("\n**R2 batch=4**: ");
  ASSERT_NE(begin, std::string::npos) << text;
  const std::string line = text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
  for (const char* part : {" rounds in ", "noise "}) EXPECT_TRUE(has(line, part)) << line;
  EXPECT_TRUE(has(text, "| predicted peak |")) << text;
}

TEST_F(Generated, WhatCouldNotRunIsOneLineBelowTheTable) {
  Result result = sample_result();
  CaseResult& c = result.cases[0];
  for (size_t i = 1; i < c.variants.size(); ++i) {
    c.variants[i].status = "skipped";
    c.variants[i].reason = "needs a GPU";
  }
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "\nNot run here: *accumulate*")) << text;
  EXPECT_TRUE(has(text, ": needs a GPU.\n")) << text;
  EXPECT_FALSE(has(text, "\n| accumulate |")) << text;
}

// One row for each rung of a ladder would be hundreds; the same numbers side by side are a table.
TEST_F(Generated, LooksThatNotedTheSameThingsStandSideBySide) {
  Result result = sample_result();
  CaseResult counted = result.cases[0];
  counted.name = "ladder", counted.kind = "survey", counted.verdicts.clear(), counted.variants.clear();
  for (const char* rung : {"rung 0", "rung 1"}) {
    VariantResult look;
    look.name = rung;
    look.notes = {{"bytes", {64, "bytes"}}, {"sectors", {2, ""}}, {"time", {1e-6, "s"}}};
    counted.variants.push_back(look);
  }
  result.cases = {counted};
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "| | rung 0 | rung 1 |\n")) << text;
  EXPECT_TRUE(has(text, "| sectors | 2 | 2 |\n")) << text;
  result.cases[0].variants[1].notes = {{"something else", {1, ""}}};
  result.cases[0].variants[0].notes = {{"bytes", {64, "bytes"}}};
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "| rung 1 | something else | 1 |\n"));
}

TEST(Surveys, WhatOneLookNotedOfSeveralThingsIsATableOfThem) {
  CaseResult counted;
  counted.name = "counted", counted.kind = "survey";
  VariantResult eager, fused, ours;
  eager.name = "eager", fused.name = "fused", ours.name = "ours";
  eager.notes = {{"operators", {5, ""}}}, fused.notes = {{"operators", {2, ""}}};
  ours.notes = {
      {"rung 0, loads", {4, ""}}, {"rung 0, stores", {1, ""}}, {"rung 1, loads", {3, ""}}, {"rung 1, stores", {1, ""}}};
  counted.variants = {eager, fused, ours};
  const std::string table = survey_markdown(counted);
  EXPECT_NE(table.find("| ours | loads | stores |\n|---|---:|---:|\n| rung 0 | 4 | 1 |\n| rung 1 | 3 | 1 |\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("| ours | |"), std::string::npos) << "no empty row: " << table;
  counted.variants[2].notes.erase("rung 1, stores");
  EXPECT_NE(survey_markdown(counted).find("| ours | rung 1, loads | 3 |\n"), std::string::npos)
      << "not the same of each";
}

// Which line is worst is for `./tenfold kernel`; a page says how bad it is, and does not change with every edit.
TEST_F(Generated, ALadderHasARowForEachRungAndItsWorstLines) {
  Result result = sample_result();
  CaseResult counted = result.cases[0];
  counted.name = "ladder", counted.kind = "survey", counted.verdicts.clear(), counted.variants.clear();
  for (int rung = 0; rung < 4; ++rung) {
    VariantResult look;
    look.name = "rung " + std::to_string(rung);
    look.notes = {{"x.cuh:" + std::to_string(10 + rung) + " global load", {4.0 + rung, "sectors/request"}},
                  {"x.cuh:" + std::to_string(20 + rung) + " global load", {32.0 - rung, "sectors/request"}},
                  {"arithmetic", {1e-6, "s"}}};
    counted.variants.push_back(look);
  }
  result.cases = {counted};
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "| | global load, worst line, sectors/request |\n")) << text;
  EXPECT_TRUE(has(text, "| rung 0 | 32 |\n")) << text;
  EXPECT_TRUE(has(text, "| rung 3 | 29 |\n")) << text;
  EXPECT_TRUE(has(text, "\nThe same in every row: arithmetic: 1.00 us.\n")) << text;

  for (VariantResult& look : result.cases[0].variants) look.notes = {{"arithmetic", {1e-6, "s"}}};
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"),
                  ".\n\nThe same of *rung 0*, *rung 1*, *rung 2*, *rung 3*: arithmetic: 1.00 us.\n"))
      << "no table names them";

  for (VariantResult& look : result.cases[0].variants) look.status = "skipped", look.reason = "needs a CUDA device";
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), ".\n\nNot run here: needs a CUDA device.\n"));
}

TEST_F(Generated, ATrainingHasATableOfItsOwn) {
  Result result = sample_result();
  result.cases.push_back(sample_training().cases[0]);
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md"), all = page("docs/results.md");
  EXPECT_TRUE(has(text, "\n\n| variant | validation loss | trained in |")) << text;
  EXPECT_TRUE(has(text, "\n| rounded | ")) << text;
  EXPECT_TRUE(has(text, "reached by 0 of 6 seeds")) << text;
  EXPECT_TRUE(has(text, "validation loss, lower is better; margin 0.021")) << text;
  EXPECT_TRUE(has(text, "6 seeds by wall clock; ")) << text;
  EXPECT_TRUE(has(all, "NOT WORSE +0.0003 [-0.0031, +0.0038]")) << all;
}

TEST_F(Generated, WhatARunPrintedIsOneCaseOfTheReferences) {
  const auto with = [&](const std::string& arguments) {
    write("docs/first.md", "<!-- tenfold:begin printed " + arguments + " -->\n<!-- tenfold:end -->\n");
  };
  with("30_gradient_accumulation R2 batch=4");
  EXPECT_TRUE(has(page("docs/first.md"), "Not yet measured.")) << page("docs/first.md");
  Result result = sample_result();
  result.cases.push_back(result.cases[0]);
  result.cases[1].name = "another";
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  EXPECT_TRUE(has(page("docs/first.md"), "Not yet measured.")) << "no machine is the reference";
  write("results/REFERENCE", result.machine.id + "\n");
  const std::string text = page("docs/first.md");
  EXPECT_TRUE(has(text, "```text\n30_gradient_accumulation - ")) << text;
  EXPECT_TRUE(has(text, "\nCase R2 batch=4: ")) << text;
  EXPECT_TRUE(has(text, "  accumulate ")) << text;
  EXPECT_FALSE(has(text, "Case another")) << text;
  with("30_gradient_accumulation R9");
  EXPECT_TRUE(has(complaint(), "has no case 'R9'")) << complaint();
  with("99_none R9");
  EXPECT_TRUE(has(complaint(), "there is no lesson '99_none'")) << complaint();
  with("30_gradient_accumulation");
  EXPECT_TRUE(has(complaint(), "needs a lesson and a case")) << complaint();
}

TEST_F(Generated, OtherCodeMakesARowStale) {
  publish(false);
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "stale"));
  EXPECT_TRUE(has(page("docs/results.md"), "(stale)"));
}

TEST_F(Generated, ASecondPassChangesNothing) {
  publish(true);
  for (const GeneratedFile& file : generate_documents(root_, lessons_)) write_atomically(file.path, file.text);
  for (const GeneratedFile& file : generate_documents(root_, lessons_))
    EXPECT_EQ(file.text, file.old_text) << file.path;
}

TEST_F(Generated, MistakesNameFileAndLine) {
  const auto with = [&](const std::string& text) {
    write("docs/bad.md", text);
    return complaint();
  };
  const std::string end = "\n<!-- tenfold:end -->\n";
  EXPECT_TRUE(has(with("one\ntwo\n<!-- tenfold:begin code lesson.cpp x -->" + end),
                  "bad.md:3: code: there is no file lesson.cpp"));
  EXPECT_TRUE(has(with("<!-- tenfold:begin code ../lessons/30_gradient_accumulation/lesson.cpp nothing -->" + end),
                  "has no definition of 'nothing'"));
  EXPECT_TRUE(has(with("<!-- tenfold:begin code -->" + end), "needs a file and at least one symbol"));
  EXPECT_TRUE(has(with("<!-- tenfold:begin tabel -->" + end), "unknown kind 'tabel'"));
  EXPECT_TRUE(has(with("<!-- tenfold:begin measured 99_none -->" + end), "there is no lesson '99_none'"));
  EXPECT_TRUE(has(with("<!-- tenfold:begin results -->\n"), "bad.md:1: 'tenfold:begin' without a 'tenfold:end'"));
  EXPECT_TRUE(has(with("\n<!-- tenfold:end -->\n"), "bad.md:2: 'tenfold:end' without a 'tenfold:begin'"));
  EXPECT_TRUE(has(with("<!-- tenfold:begin results -->\n<!-- tenfold:begin results -->" + end), "bad.md:1"));
}

TEST_F(Generated, ATrainingsQualityHoldsASentenceByItsNumberOrItsLabel) {
  Result result = sample_training();
  result.code_hash = code_hash(root_ / "lessons" / result.lesson);
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  write("results/REFERENCE", "2x-sample-cpu\n");
  const auto with = [&](const std::string& spec) {
    write("lessons/30_gradient_accumulation/README.md", "ends at <!-- value " + spec + " -->x<!-- / -->\n");
  };
  for (const char* spec : {"quality | fp32 | quality < 3", "quality | bf16 | quality is NOT WORSE",
                           "quality | rounded | quality is WORSE", "quality | bf16 | quality is WORSE or NOT WORSE"}) {
    with(spec);
    EXPECT_EQ(complaint(), "") << spec;
  }
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "-->2."))
      << page("lessons/30_gradient_accumulation/README.md");
  result.cases[0].verdicts[0].quality->high = -0.5;
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  for (const char* spec : {"quality | bf16 | quality is BETTER", "quality | bf16 | quality is NOT WORSE"}) {
    with(spec);
    EXPECT_EQ(complaint(), "") << spec;
  }
  result.cases[0].verdicts[0].quality->high = 0.004;
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  with("quality | bf16 | quality is WORSE");
  EXPECT_TRUE(has(complaint(), "it is NOT WORSE now; the sentence wants to be rewritten")) << complaint();
  with("quality | fp32 | quality > 3");
  EXPECT_TRUE(has(complaint(), "the sentence wants to be rewritten")) << complaint();
}

TEST_F(Generated, NumbersInSentencesAreTheReferencesAndHoldTheSentence) {
  const auto with = [&](const std::string& spec) {
    write("lessons/30_gradient_accumulation/README.md", "falls to <!-- value " + spec + " -->x<!-- / -->, or so\n");
  };
  const auto line = [&] { return page("lessons/30_gradient_accumulation/README.md"); };
  with("R2 batch=4 | accumulate | memory");
  EXPECT_TRUE(has(line(), "-->(not yet measured)<!-- / -->, or so\n")) << line();
  publish(true);
  write("results/REFERENCE", "2x-sample-cpu\n");
  EXPECT_FALSE(has(line(), "not yet measured")) << line();
  for (const char* spec : {"R2 batch=4 | accumulate | speed is SLOWER", "R2 batch=4 | accumulate | speed < 0.9",
                           "R2 batch=4 | accumulate | speed > 0.5", "30 | R2 batch=4 | accumulate | peak > 1000"}) {
    with(spec);
    EXPECT_EQ(complaint(), "") << spec;
    EXPECT_EQ(line().find("-->x<!--"), std::string::npos) << line();
  }
  with("R2 batch=4 | accumulate | device > 0.5");
  EXPECT_TRUE(has(line(), " %<!-- / -->")) << line();
  with("R2 batch=4 | accumulate | copy > 0.9");
  EXPECT_TRUE(has(complaint(), "the sentence wants to be rewritten")) << complaint();
  with("R2 batch=4 | large batch | note wait < 0.01");
  EXPECT_TRUE(has(line(), "-->1.20 ms<!-- / -->")) << line();
  with("R2 batch=4 | zeroes every micro-batch | deviation > 0.01");
  EXPECT_TRUE(has(line(), "-->0.03<!-- / -->")) << line();
  with("R2 batch=4 | accumulate | deviation < 0.001");
  EXPECT_TRUE(has(line(), "-->2.1e-07<!-- / -->")) << line();
  with("R2 batch=4 | large batch | note beauty");
  EXPECT_TRUE(has(complaint(), "note beauty: nothing of this name was noted")) << complaint();
  with("R2 batch=4 | large batch | note wait > 1");
  EXPECT_TRUE(has(complaint(), "it is 1.20 ms now")) << complaint();
  with("R2 batch=4 | on a GPU | deviation");
  EXPECT_TRUE(has(complaint(), "has no such number")) << complaint();
  with("R2 batch=4 | accumulate | speed > 1");
  EXPECT_TRUE(has(complaint(), "README.md: value R2 batch=4 | accumulate | speed > 1: it is 0.80")) << complaint();
  EXPECT_TRUE(has(complaint(), "the sentence wants to be rewritten"));
  with("R2 batch=4 | accumulate | speed is FASTER");
  EXPECT_TRUE(has(complaint(), "it is SLOWER now")) << complaint();
  write("docs/other.md",
        "<!-- value 30 | R2 batch=4 | accumulate | speed > 1 -->x<!-- / --> and "
        "<!-- value 30 | R2 batch=4 | accumulate | memory > 9 -->x<!-- / -->\n");
  try {
    generate_documents(root_, lessons_);
    ADD_FAILURE() << "three sentences are wrong";
  } catch (const ContradictedSentences& wrong) {
    EXPECT_THAT(wrong.lines(),
                testing::ElementsAre(testing::HasSubstr("other.md: value 30 | R2 batch=4 | accumulate | speed"),
                                     testing::HasSubstr("memory > 9: it is "),
                                     testing::HasSubstr("30_gradient_accumulation/README.md: value R2")));
    EXPECT_TRUE(has(wrong.what(), "; 2 more"));
  }
  fs::remove(root_ / "docs" / "other.md");
  with("R2 batch=4 | accumulate | speed is SAME or SLOWER");
  EXPECT_EQ(complaint(), "");
  with("R2 batch=4 | accumulate | speed is SAME or AMBIGUOUS");
  EXPECT_TRUE(has(complaint(), "it is SLOWER now")) << complaint();
  with("R2 batch=4 | nobody | speed");
  EXPECT_TRUE(has(complaint(), "no variant of this name"));
  with("R3 | accumulate | speed");
  EXPECT_TRUE(has(complaint(), "no case of this name"));
  with("R2 batch=4 | accumulate | beauty");
  EXPECT_TRUE(has(complaint(), "'beauty' is none of"));
  with("accumulate | speed");
  EXPECT_TRUE(has(complaint(), "expected [on CARD |] [LESSON |] CASE"));
  write("docs/example.md", "So:\n\n    <!-- value gpt | x | speed -->0.1x<!-- / -->\n");
  with("R2 batch=4 | accumulate | speed");
  EXPECT_TRUE(has(page("docs/example.md"), "-->0.1x<!-- / -->"));
  write("lessons/30_gradient_accumulation/README.md", "<!-- value R2 batch=4 | accumulate | speed -->x\n");
  EXPECT_TRUE(has(complaint(), "is not closed"));
}

TEST_F(Generated, NumbersOfADryGpuNameTheirCardAndSayThatSpeedIsModelled) {
  const auto with = [&](const std::string& spec) {
    write("lessons/30_gradient_accumulation/README.md", "falls to <!-- value " + spec + " -->x<!-- / -->, or so\n");
  };
  const auto line = [&] { return page("lessons/30_gradient_accumulation/README.md"); };
  publish(true);
  write("results/REFERENCE", "2x-sample-cpu\n");
  with("on H100 | R2 batch=4 | accumulate | memory");
  EXPECT_TRUE(has(complaint(), "no results of a GPU of this name are published")) << complaint();
  Result dry = sample_modelled_result();
  write_result(root_ / "results" / dry.machine.id / (dry.lesson + ".json"), dry);
  EXPECT_TRUE(has(line(), "x<!-- / -->, or so")) << line();
  EXPECT_FALSE(has(line(), "modelled")) << line();
  with("on H100 | 30 | R2 batch=4 | accumulate | speed < 0.9");
  EXPECT_TRUE(has(line(), "x (modelled)<!-- / -->, or so")) << line();
  with("on H100 | R2 batch=4 | accumulate | speed > 0.9");
  EXPECT_TRUE(has(complaint(), "the sentence wants to be rewritten")) << complaint();
  dry.cases[0].variants[1].split = Split{.host = 0.1, .device = 0.3};
  write_result(root_ / "results" / dry.machine.id / (dry.lesson + ".json"), dry);
  with("on H100 | R2 batch=4 | accumulate | speed");
  EXPECT_TRUE(has(line(), "x (modelled, host)<!-- / -->, or so")) << line();
  with("on H100 | R2 batch=4 | accumulate | memory");
  EXPECT_FALSE(has(line(), "host")) << "bytes are the same from any host: " << line();
}

TEST_F(Generated, ASpeedOfADryGpuByAnotherModelThanTheTreesIsCalledThat) {
  const Result dry = sample_modelled_result();
  write_result(root_ / "results" / dry.machine.id / (dry.lesson + ".json"), dry);
  const auto text = [&] { return page("lessons/30_gradient_accumulation/README.md"); };
  EXPECT_TRUE(has(text(), "memory and agreement, speed modelled.")) << "no model to compare with";
  write("common/dry_gpu/rates.cpp", "double gap;\n");
  EXPECT_TRUE(has(text(), "speed modelled (on H100 by an *earlier model*).")) << text();
}

TEST_F(Generated, NumbersOfARealCardAreItsMeasurementsByTheMachinesName) {
  publish(true);
  write("results/REFERENCE", "2x-sample-cpu\n");
  Result card = sample_result();
  card.machine.id = "h200";
  card.code_hash = code_hash(root_ / "lessons" / card.lesson);
  speed_up(card.cases[0].variants[1], 2);
  card.cases[0].verdicts[0].speed.ratio = 1.6;
  write_result(root_ / "results/h200" / (card.lesson + ".json"), card);
  write("lessons/30_gradient_accumulation/README.md",
        "<!-- value on h200 | R2 batch=4 | accumulate | speed > 1.5 -->x<!-- / --> there\n");
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "-->1.60x<!-- / --> there"))
      << page("lessons/30_gradient_accumulation/README.md");
  write("lessons/30_gradient_accumulation/README.md",
        "<!-- value on h100 | R2 batch=4 | accumulate | speed -->x<!-- / --> there\n");
  EXPECT_TRUE(has(complaint(), "no results of a GPU of this name are published")) << complaint();
}

TEST_F(Generated, ASentenceOfAbsenceIsHeldByEveryVerdictOfItsRows) {
  const auto with = [&](const std::string& spec) {
    write("lessons/30_gradient_accumulation/README.md", "<!-- none " + spec + " -->nothing is shown<!-- / --> here\n");
  };
  with("FASTER in * | *");
  EXPECT_EQ(complaint(), "") << "not yet published";
  publish(true);
  write("results/REFERENCE", "2x-sample-cpu\n");
  for (const char* spec : {"FASTER in * | *", "FASTER in R2 batch=4 | accumulate", "LARGER in R2 batch=4 | accumulate",
                           "WORSE in * | *"}) {
    with(spec);
    EXPECT_EQ(complaint(), "") << spec;
    EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "-->nothing is shown<!-- / --> here")) << spec;
  }
  for (const char* spec : {"SLOWER in * | *", "SLOWER in R2 batch=4 | *", "SMALLER in * | accumulate"}) {
    with(spec);
    EXPECT_TRUE(has(complaint(), std::string("none ") + spec + ": R2 batch=4, accumulate is")) << complaint();
    EXPECT_TRUE(has(complaint(), "the sentence wants to be rewritten"));
  }
  with("FASTER in R3 | *");
  EXPECT_TRUE(has(complaint(), "no such case and technique")) << complaint();
  for (const char* spec : {"QUICKER in * | *", "FASTER", "FASTER in *", "FASTER in on H100 | 30 | R2 | a | speed"}) {
    with(spec);
    EXPECT_TRUE(has(complaint(), "expected LABEL in")) << spec << ": " << complaint();
  }
}

// Who compares with what everybody does wants that ratio, not the one to a reference that nobody trains.
TEST_F(Generated, ASentenceComparesTwoTechniquesOfACase) {
  publish(true);
  write("results/REFERENCE", "2x-sample-cpu\n");
  Result result = sample_result();
  result.code_hash = code_hash(root_ / "lessons" / result.lesson);
  CaseResult& c = result.cases[0];
  c.variants.push_back(c.variants[1]), c.variants.back().name = "in halves";
  c.verdicts.push_back(c.verdicts[0]), c.verdicts.back().technique = "in halves";
  c.verdicts[0].speed = {"FASTER", 3.0, 2.9, 3.1}, c.verdicts.back().speed = {"FASTER", 2.0, 1.9, 2.1};
  write_result(root_ / "results/2x-sample-cpu" / (result.lesson + ".json"), result);
  const auto with = [&](const std::string& what) {
    write("lessons/30_gradient_accumulation/README.md",
          "<!-- value R2 batch=4 | accumulate | speed over " + what + " -->x<!-- / --> as fast\n");
  };
  with("in halves > 1.4");
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "-->1.50x<!-- / --> as fast"));
  with("in halves > 1.6");
  EXPECT_TRUE(has(complaint(), "it is 1.50x now; the sentence wants to be rewritten")) << complaint();
  with("in thirds");
  EXPECT_TRUE(has(complaint(), "the published result has no such number")) << complaint();
  c.verdicts.back().speed.label = "AMBIGUOUS";
  write_result(root_ / "results/2x-sample-cpu" / (result.lesson + ".json"), result);
  with("in halves");
  EXPECT_TRUE(has(complaint(), "in halves is AMBIGUOUS now; leave the number out")) << complaint();
}

TEST_F(Generated, ADamagedResultIsNamed) {
  write("results/m/30_gradient_accumulation.json", "{}");
  EXPECT_TRUE(has(complaint(), "results/m/30_gradient_accumulation.json: schema: is missing"));
}

}  // namespace
}  // namespace tenfold
