// new-lesson: a folder copied under a new number and name; all of it or nothing.
#include <algorithm>

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class NewLesson : public Sandbox {
 protected:
  NewLesson() {
    for (const std::string name : {"30_old_way", "31_other"})
      write("lessons/" + name + "/CMakeLists.txt", "tenfold_lesson()\n");
    write("lessons/30_old_way/lesson.cpp",
          "// Lesson 30 - Old way: what does it cost?\n#include \"lessons/30_old_way/old.h\"\n"
          "int main() { return run({\n    .lesson = \"30_old_way\",\n    .title = \"Old way\",\n    .version = 3,\n"
          "    .core = true,\n    .layers = 30}); }\n");
    write("lessons/30_old_way/old.h",
          "// installs as <tenfold/old.h>\n#pragma once\nnamespace tenfold {\nint old;\n}  // namespace tenfold\n");
    write("lessons/30_old_way/own.h",
          "#pragma once\nnamespace tenfold::inline lesson_30 {\n}  // namespace tenfold::inline lesson_30\n");
    write("lessons/30_old_way/README.md",
          "# 30 Old way\n\n<!-- tenfold:begin question -->\n**What?**\n<!-- tenfold:end -->\n\nIt needs "
          "<!-- value gpt | old | memory < 0.5 -->0.357x<!-- / --> of the memory; `./tenfold run 30` and ./tenfold run "
          "30.1.\n\n"
          "<!-- tenfold:begin measured -->\nrows\n<!-- tenfold:end -->\n\nAfter [31](../31_other/README.md).\n");
    write("lessons/30_old_way/figures/ratio.svg", "<svg/>");
    write("lessons/30_old_way/exercise/README.md", "# Exercise 30: write it\n\n`./tenfold exercise 30 --hint`\n");
  }
  void refused(const std::string& words, const std::string& why) const {
    const auto before = snapshot();
    const Ran ran = tenfold("new-lesson " + words);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_TRUE(has(ran.err, why)) << words << ": " << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(snapshot(), before) << "nothing is written";
  }
};

TEST_F(NewLesson, IsACopyUnderANewNameWithoutWhatWasMeasured) {
  const auto before = snapshot();
  const Ran ran = tenfold("new-lesson 66_my_technique");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"lessons/66_my_technique: a copy of 30_old_way", "./tenfold run 66 --preset smoke",
                           "./tenfold report --write", "./tenfold test -R 66_", "docs/adding_a_lesson.md"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  EXPECT_EQ(read("lessons/66_my_technique/lesson.cpp"),
            "// Lesson 66 - My technique\n#include \"lessons/66_my_technique/old.h\"\n"
            "int main() { return run({\n    .lesson = \"66_my_technique\",\n    .title = \"My technique\",\n"
            "    .version = 1,\n    .layers = 30}); }\n");
  EXPECT_EQ(
      read("lessons/66_my_technique/old.h"),
      "#pragma once\nnamespace tenfold::inline lesson_66 {\nint old;\n}  // namespace tenfold::inline lesson_66\n")
      << "a name is installed once";
  EXPECT_EQ(read("lessons/66_my_technique/own.h"),
            "#pragma once\nnamespace tenfold::inline lesson_66 {\n}  // namespace tenfold::inline lesson_66\n");
  EXPECT_EQ(read("lessons/66_my_technique/README.md"),
            "# 66 My technique\n\n<!-- tenfold:begin question -->\n**What?**\n<!-- tenfold:end -->\n\nIt needs "
            "<!-- value gpt | old | memory < 0.5 -->(not yet measured)<!-- / --> of the memory; `./tenfold run 66` and "
            "./tenfold run 30.1.\n\n<!-- tenfold:begin measured -->\n<!-- tenfold:end -->\n\n"
            "After [31](../31_other/README.md).\n");
  EXPECT_EQ(read("lessons/66_my_technique/exercise/README.md"),
            "# Exercise 66: write it\n\n`./tenfold exercise 66 --hint`\n");
  EXPECT_FALSE(fs::exists(root_ / "lessons/66_my_technique/figures"));
  auto after = snapshot();
  std::erase_if(after, [](const auto& file) { return file.first.starts_with("lessons/66_my_technique"); });
  EXPECT_EQ(after, before) << "no other file changes";
}

TEST_F(NewLesson, OfAnotherLesson) {
  EXPECT_EQ(tenfold("new-lesson 65_like_that --from other").code, 0);
  EXPECT_EQ(read("lessons/65_like_that/CMakeLists.txt"), "tenfold_lesson()\n");
  EXPECT_EQ(tenfold("new-lesson 64_like_that_too --from 65").code, 0) << "one that is not built";
  refused("63_x --from nosuch", "unknown lesson 'nosuch'");
  refused("63_x --from 3", "means several lessons");
}

TEST_F(NewLesson, RefusesWhatIsTakenOrNoName) {
  refused("", "name the lesson, as in: ./tenfold new-lesson 66_my_technique");
  for (const char* word : {"66", "my_technique", "6_x", "666_x", "66_", "66_My", "66-my", "66_my__x", "66_x_", "66_1x",
                           "../66_x", "66_x/y", "'66 x'", "66_x.y", "66_\u00e4", "' '", "'66_x\ny'"})
    refused(word, "is no lesson's name: two digits, then small letters");
  refused("66 my_technique", "unknown argument 'my_technique'");
  refused("66_" + std::string(41, 'a'), "at most 40 characters, and this one 41");
  refused("66_" + std::string(5000, 'a'), "is no lesson's name");
  refused("30_new", "number 30 is taken by 30_old_way; free in its chapter: 32, 33");
  refused("70_new", "no chapter has number 70; docs/adding_a_lesson.md lists them");
  refused("66_other", "there is a lesson of that name: 31_other");
  write("lessons/67_begun/notes.txt", "mine");
  refused("67_begun", "lessons/67_begun: is there already; move it away first");
}

TEST_F(NewLesson, WhatCannotBeReadLeavesNothing) {
  fs::create_symlink("nowhere", root_ / "lessons/30_old_way/notes.h");
  refused("66_my_technique", "notes.h");
}

}  // namespace
}  // namespace tenfold
