// Which cases of an earlier run may be kept.
#include <gtest/gtest.h>

#include <chrono>

#include "common/harness/resume.h"
#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class Resume : public testing::Test {
 protected:
  Resume() {
    test::write_text(program_, "a program");
    fs::last_write_time(program_, fs::file_time_type::clock::now() - std::chrono::hours(1));
    write_result(file_, before_);
  }
  Kept kept(int ranks) const { return kept_of(file_, now_, ranks, program_); }
  int ranks() const { return before_.cases.front().ranks; }

  const test::Scratch scratch_;
  const fs::path file_ = scratch_.path() / "result.json", program_ = scratch_.path() / "program";
  const Result before_ = sample_result();
  Result now_ = before_;
};

TEST_F(Resume, TheSameRunKeepsItsCases) {
  EXPECT_EQ(kept(ranks()).cases.size(), before_.cases.size());
  EXPECT_EQ(kept(ranks()).why_none, "");
}

TEST_F(Resume, WithoutAFileNothingIsKeptAndNothingIsSaid) {
  fs::remove(file_);
  EXPECT_TRUE(kept(ranks()).cases.empty());
  EXPECT_EQ(kept(ranks()).why_none, "");
}

TEST_F(Resume, CasesOfAnotherNumberOfRanksAreNotMeant) {
  EXPECT_TRUE(kept(ranks() + 1).cases.empty());
  EXPECT_EQ(kept(ranks() + 1).why_none, "");
}

TEST_F(Resume, OtherCodeOtherFlagsAndAnotherMachineKeepNothing) {
  const auto why = [&](auto change) {
    now_ = before_;
    change(now_);
    EXPECT_TRUE(kept(ranks()).cases.empty());
    return kept(ranks()).why_none;
  };
  const std::string code = "it is of other code";
  EXPECT_EQ(why([](Result& now) { now.code_hash = std::string(64, 'c'); }), code);
  EXPECT_EQ(why([](Result& now) { now.commit = std::string(40, 'c'); }), code);
  EXPECT_EQ(why([](Result& now) { now.dirty = !now.dirty; }), code);
  EXPECT_EQ(why([](Result& now) { ++now.lesson_version; }), code);
  EXPECT_EQ(why([](Result& now) { now.argv = {"--preset", "full"}; }), "it is of other flags: --preset quick");
  EXPECT_EQ(why([](Result& now) { now.machine.id = "another"; }), "it is of another machine");
  EXPECT_EQ(why([](Result& now) { now.machine.ram_bytes *= 2; }), "it is of another machine");
  now_ = before_;
  fs::last_write_time(program_, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(kept(ranks()).why_none, code) << "the program was built after it";
}

}  // namespace
}  // namespace tenfold
