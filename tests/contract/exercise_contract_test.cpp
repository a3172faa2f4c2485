// What every exercise must have: its files, how hard it is, and help for who is stuck.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// The folders lessons/NAME/exercise and kernels/warm_ups/NAME.
std::vector<fs::path> exercise_folders() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(test::source_folder() / "lessons")) {
    if (entry.is_directory()) found.push_back(entry.path() / "exercise");
  }
  for (const auto& entry : fs::directory_iterator(test::source_folder() / "kernels" / "warm_ups")) {
    if (entry.is_directory()) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

std::string name_of(const fs::path& folder) {
  return (folder.filename() == "exercise" ? folder.parent_path() : folder).filename().string();
}

bool runs_under_the_microscope(const std::string& check) {
  return check.find("common/microscope/device.h") != std::string::npos;
}

class EveryExercise : public testing::TestWithParam<fs::path> {
 protected:
  std::string name() const { return name_of(GetParam()); }
  std::string number() const { return name().substr(0, name().find('_')); }
  std::string read(const char* file) const {
    EXPECT_TRUE(fs::exists(GetParam() / file)) << name() << "/" << file << " is missing";
    return test::read_text(GetParam() / file);
  }
};

TEST_P(EveryExercise, HasItsFiles) {
  EXPECT_TRUE(std::regex_match(name(), std::regex(R"(\d\d(\.\d)?_[a-z0-9_]+)"))) << name();
  for (const char* file : {"starter.h", "solution.h", "check.cpp", "README.md"}) EXPECT_FALSE(read(file).empty());
}

TEST_P(EveryExercise, SaysHowHardItIsAndWhatToDoWhenStuck) {
  const std::string readme = read("README.md");
  EXPECT_TRUE(readme.starts_with("# Exercise " + number() + ": ")) << name() << ": " << readme.substr(0, 60);
  EXPECT_TRUE(std::regex_search(readme, std::regex(R"(\n\nDifficulty: (easy|medium|hard)\. About [1-9]\d* minutes\.)")))
      << name() << ": no line 'Difficulty: easy|medium|hard. About N minutes.'";
  for (const char* flag : {" --hint`", " --solution`"}) {
    EXPECT_NE(readme.find("`./tenfold exercise " + number() + flag), std::string::npos)
        << name() << ": says how to get help: ./tenfold exercise " << number() << flag;
  }
  const std::string fold = "\n<details><summary>Second hint</summary>\n\n";
  const size_t begin = readme.find(fold), end = readme.find("\n</details>\n", begin);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << name() << ": no second hint, folded";
  EXPECT_GT(end - begin, fold.size() + 100) << name() << ": a second hint says more than the first";
}

// Tools and readers find a hint at the beginning of its line.
TEST_P(EveryExercise, HintsBeginTheirLine) {
  const std::string check = read("check.cpp");
  size_t hints = 0;
  for (size_t at = check.find("hint:"); at != std::string::npos; at = check.find("hint:", at + 1)) {
    const bool begins = at > 1 && (check[at - 1] == '"' || check.substr(at - 2, 2) == "\\n");
    EXPECT_TRUE(begins && check.substr(at, 6) == "hint: ")
        << name() << ": " << check.substr(at - std::min<size_t>(at, 30), 60);
    ++hints;
  }
  EXPECT_GT(hints, 0U) << "whoever fails a check wants to know where to look";
}

TEST_P(EveryExercise, AKernelFailsOnAnyFault) {
  const std::string check = read("check.cpp");
  const bool device_code = read("solution.h").find("__global__") != std::string::npos;
  EXPECT_EQ(device_code, runs_under_the_microscope(check)) << name() << ": a kernel runs under the microscope";
  if (!device_code) return;
  EXPECT_NE(check.find("test::expect_clean("), std::string::npos)
      << name() << ": what the microscope's report says of races and faults must fail the check";
  const fs::path faults = GetParam() / "faults";
  EXPECT_TRUE(fs::exists(faults) &&
              std::ranges::any_of(fs::directory_iterator(faults),
                                  [](const auto& entry) { return entry.path().extension() == ".patch"; }))
      << name() << ": a planted fault (" << faults.lexically_relative(test::source_folder())
      << "/WHAT.patch) proves that it does";
}

INSTANTIATE_TEST_SUITE_P(Exercises, EveryExercise, testing::ValuesIn(exercise_folders()), [](const auto& info) {
  std::string name = "E" + name_of(info.param);
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace tenfold
