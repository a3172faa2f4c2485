// A lesson that is killed leaves the cases that it has finished, and --resume measures the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Killed : public testing::Test {
 protected:
  /// Runs the lesson, which is killed in this case (in none: ""), and returns its exit code, as a shell gives it.
  int run(const std::string& killed_in, const std::string& flags = "") {
    const fs::path program = test::build_folder() / "tests/killed_toy";
    const std::string environment = killed_in.empty() ? "" : "TOY_KILLED_IN=" + killed_in + " ";
    const std::string command = environment + "'" + program.string() + "' --preset smoke --device cpu --json '" +
                                file_.string() + "' " + flags + " >'" + out_.string() + "' 2>'" + err_.string() + "'";
    const int status = std::system(command.c_str());  // of the program itself, where the shell replaced itself by it
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::vector<std::string> written() const {
    std::vector<std::string> names;
    for (const CaseResult& c : read_result(file_).cases) names.push_back(c.name);
    return names;
  }

  const test::Scratch scratch_;
  const fs::path file_ = scratch_.path() / "toy.json", out_ = scratch_.path() / "out", err_ = scratch_.path() / "err";
  static constexpr int kBySignal = 128 + SIGKILL;
};

TEST_F(Killed, WhatIsFinishedIsWrittenAndNotMeasuredAgain) {
  ASSERT_EQ(run("second"), kBySignal) << test::read_text(err_);
  ASSERT_THAT(written(), ElementsAre("first"));

  ASSERT_EQ(run("first", "--resume"), 0) << "the first case is built again: " << test::read_text(err_);
  EXPECT_THAT(written(), ElementsAre("first", "second"));
  EXPECT_THAT(test::read_text(out_), HasSubstr("kept from the run that was stopped: 'first'\n"));

  EXPECT_EQ(run("first", "--resume"), 0) << "nothing is left to measure: " << test::read_text(err_);
  EXPECT_EQ(run("first"), kBySignal) << "without the flag all is measured";
}

TEST_F(Killed, OfOtherFlagsNothingIsKept) {
  ASSERT_EQ(run("second"), kBySignal);
  EXPECT_EQ(run("first", "--resume --seed 5"), kBySignal);
  EXPECT_THAT(test::read_text(err_), HasSubstr("--resume: nothing of " + file_.string() +
                                               " is kept, since it is of other flags: --device cpu --preset smoke\n"));
}

// The first case has read it; the second, which alone is left, does not.
TEST_F(Killed, ATypedSettingThatWasReadIsNotRefusedLater) {
  ASSERT_EQ(run("second", "--set of_the_first=2"), kBySignal);
  EXPECT_EQ(run("", "--set of_the_first=2 --resume"), 0) << test::read_text(err_);
  EXPECT_THAT(written(), ElementsAre("first", "second"));
}

TEST_F(Killed, AFileThatIsNoneIsNamed) {
  test::write_text(file_, "{");
  EXPECT_EQ(run("", "--resume"), 0);
  EXPECT_THAT(test::read_text(err_), HasSubstr("--resume: nothing of " + file_.string() + " is kept, since "));
  EXPECT_THAT(written(), ElementsAre("first", "second"));
}

}  // namespace
}  // namespace tenfold
