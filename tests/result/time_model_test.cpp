// Which model of time a dry GPU's result was made with: by its commit, with the real git.
#include "common/result/time_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/process.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// A committed tree with a model.
class TimeModel : public testing::Test {
 protected:
  void SetUp() override {
    if (output_of({"git", "--version"}).empty()) GTEST_SKIP() << "no git";
    write("common/dry_gpu/rates.cpp", "double gap = 0.9;\n\n// measured\n");
    write("common/dry_gpu/durations/demand.cpp", "int demand = 1;\n");
    write("common/dry_gpu/arithmetic/draws.cpp", "int draws = 1;\n");
    write("common/dry_gpu/races.cpp", "int races = 1;\n");
    write("common/dry_gpu/CMakeLists.txt", "# one\n");
    write("common/machine/gpu_ceilings.cpp", "double bytes_per_s = 3.35e12;\n");
    write("common/machine/hardware.cpp", "int cores = 1;\n");
    first_ = commit();
  }
  void write(const std::string& name, const std::string& text) const { test::write_text(tree_ / name, text); }
  std::string git(const std::string& arguments) const {
    return output_of(
        {"sh", "-c",
         "git -C '" + tree_.string() + "' -c user.name=a -c user.email=a@b -c init.defaultBranch=main " + arguments});
  }
  std::string commit() const {
    git("init -q");
    git("add -A");
    git("commit -q -m one");
    return git("rev-parse HEAD");
  }
  std::set<std::string> earlier(const std::set<std::string>& commits) const {
    return earlier_models(tree_, commits, time_models(tree_, commits));
  }

  test::Scratch scratch_;
  fs::path tree_ = scratch_.path() / "tree";
  std::string first_;
};

TEST_F(TimeModel, ACommitHasTheModelOfItsFiles) {
  ASSERT_EQ(first_.size(), 40U);
  EXPECT_EQ(time_model_hash(tree_).size(), 64U);
  EXPECT_EQ(time_model_hash(tree_, first_), time_model_hash(tree_));
  EXPECT_THAT(earlier({first_}), IsEmpty());
}

TEST_F(TimeModel, EveryChangeOfWhatDecidesATimeCounts) {
  for (const auto& [file, text] : {std::pair("common/dry_gpu/rates.cpp", "double gap = 1.0;\n"),
                                   std::pair("common/dry_gpu/durations/demand.cpp", "int demand = 2;\n"),
                                   std::pair("common/dry_gpu/durations/more.h", "int more;\n"),
                                   std::pair("common/machine/gpu_ceilings.cpp", "double bytes_per_s = 3.36e12;\n")}) {
    write(file, text);
    EXPECT_THAT(earlier({first_}), ElementsAre(first_)) << file;
    const std::string second = commit();
    EXPECT_THAT(earlier({first_, second}), ElementsAre(first_)) << file;
    first_ = second;
  }
}

TEST_F(TimeModel, CommentsPlacesAndWhatDecidesNoTimeDoNotCount) {
  write("common/dry_gpu/rates.cpp", "double gap =\n    0.9;  // of a V100\n");
  fs::rename(tree_ / "common/dry_gpu/durations/demand.cpp", tree_ / "common/dry_gpu/asked.cpp");
  write("common/dry_gpu/arithmetic/draws.cpp", "int draws = 2;\n");
  write("common/dry_gpu/races.cpp", "int races = 2;\n");
  write("common/dry_gpu/CMakeLists.txt", "# two\n");
  write("common/machine/hardware.cpp", "int cores = 2;\n");
  EXPECT_THAT(earlier({first_}), IsEmpty());
  EXPECT_THAT(earlier({first_, commit()}), IsEmpty());
}

TEST_F(TimeModel, OfACommitThatNobodyKnowsTheModelIsNotTodays) {
  const std::string none(40, 'b'), word = "HEAD", flag = "--open-files-in-pager=touch " + (tree_ / "ran").string();
  EXPECT_THAT(earlier({first_, none, word, flag, ""}), UnorderedElementsAre(none, word, flag, ""));
  EXPECT_FALSE(fs::exists(tree_ / "ran"));
  fs::remove_all(tree_ / ".git");
  EXPECT_THAT(earlier({first_}), ElementsAre(first_)) << "without a history";
  write(kTimeModels, "{\"" + first_ + "\": \"" + time_model_hash(tree_) + "\"}");
  EXPECT_THAT(earlier({first_, none}), ElementsAre(none)) << "without a history, but with what was kept of it";
  write(kTimeModels, "{");
  EXPECT_THROW(earlier({first_}), FileError);
  fs::remove_all(tree_ / "common/dry_gpu");
  EXPECT_THAT(earlier({first_}), IsEmpty()) << "without a model to compare with";
}

// The real tree: a file that is named and is not there would let what it was renamed to into the hash.
TEST(TimeModelOfThisTree, NamesFilesThatAreThere) {
  for (const char* const name : {"order", "races", "places", "nccl/reduction"}) {
    const fs::path file = test::source_folder() / "common/dry_gpu" / name;
    EXPECT_TRUE(fs::exists(file.string() + ".cpp") || fs::exists(file.string() + ".h")) << file;
  }
}

}  // namespace
}  // namespace tenfold
