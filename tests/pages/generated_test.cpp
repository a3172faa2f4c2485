#include "common/pages/generated.h"

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

TEST_F(Generated, NothingMeasuredIsSaid) {
  EXPECT_TRUE(has(page("lessons/30_gradient_accumulation/README.md"), "Not yet measured on any machine."));
  const std::string root = page("README.md");
  EXPECT_TRUE(has(root,
                  "| 30 | [Gradient \\| accumulation](lessons/30_gradient_accumulation/README.md) | How much? | not "
                  "yet measured | not yet "
                  "measured |"));
  EXPECT_TRUE(has(root, "after\n"));
  EXPECT_FALSE(has(root, "stale text"));
}

TEST_F(Generated, MeasuredRowsAndWhatIsMissing) {
  publish(true);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "SLOWER 0.80")) << text;
  EXPECT_TRUE(has(text, "| trap caught |"));
  EXPECT_TRUE(has(text, "2026-01-02, commit bbbbbbbbbb"));
  EXPECT_TRUE(has(text, "On a GPU: not yet measured."));
  EXPECT_FALSE(has(text, "stale"));
  EXPECT_TRUE(has(page("docs/results.md"), "## 2x-sample-cpu"));
  EXPECT_TRUE(has(page("docs/lessons.md"), "(../lessons/30_gradient_accumulation/README.md)"));
}

TEST_F(Generated, ASurveyHasItsNotesInATableOfTheirOwn) {
  Result result = sample_result();
  CaseResult counted = result.cases[0];
  counted.name = "counted", counted.kind = "survey", counted.verdicts.clear();
  result.cases.push_back(counted);
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md");
  EXPECT_TRUE(has(text, "| R2 batch=4 | accumulate |")) << text;
  EXPECT_TRUE(has(text, "\n\n| case | variant | what | value |\n")) << text;
  EXPECT_TRUE(has(text, "| counted | accumulate | micro-batches |")) << text;
  EXPECT_FALSE(has(text, "| R2 batch=4 | accumulate | micro-batches |")) << text;
}

TEST_F(Generated, ATrainingHasATableOfItsOwn) {
  Result result = sample_result();
  result.cases.push_back(sample_training().cases[0]);
  write_result(root_ / "results" / result.machine.id / (result.lesson + ".json"), result);
  const std::string text = page("lessons/30_gradient_accumulation/README.md"), all = page("docs/results.md");
  EXPECT_TRUE(has(text, "\n\n| training | variant | quality |")) << text;
  EXPECT_TRUE(has(text, "| quality | rounded |")) << text;
  EXPECT_TRUE(has(text, "reached by 0 of 6 seeds")) << text;
  EXPECT_TRUE(has(text, "Quality: quality: validation loss, lower is better; margin 0.021")) << text;
  EXPECT_TRUE(has(text, "; quality 6 seeds by wall clock")) << text;
  EXPECT_TRUE(has(all, "NOT WORSE +0.0003 [-0.0031, +0.0038]")) << all;
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

TEST_F(Generated, ADamagedResultIsNamed) {
  write("results/m/30_gradient_accumulation.json", "{}");
  EXPECT_TRUE(has(complaint(), "results/m/30_gradient_accumulation.json: schema: is missing"));
}

}  // namespace
}  // namespace tenfold
