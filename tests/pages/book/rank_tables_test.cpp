// What ranks send and hold, on several numbers of them.
#include "common/pages/book/rank_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;

class RankTables : public testing::Test {
 protected:
  void write(const std::string& set, const Result& result) const {
    const std::filesystem::path folder = root_ / "docs/ranks" / set;
    std::filesystem::create_directories(folder);
    write_result(folder / "52_ddp.json", result);
  }

  const test::Scratch scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

TEST_F(RankTables, AColumnForEachNumberOfRanksAndTheLargestError) {
  EXPECT_EQ(rank_tables_markdown(root_), "Not counted yet.\n");
  Result counted = sample_result();
  CaseResult& two = counted.cases[0];
  two.ranks = 2;
  two.variants[1].sent_bytes = {{"all_reduce", 1 << 20}, {"all_gather", 1 << 20}};
  two.verdicts[0].prediction_error = {{"sent", 0.0}, {"peak", -0.03}};
  CaseResult four = two;
  four.ranks = 4;
  four.verdicts[0].prediction_error = {{"sent", 0.02}, {"peak", 0.01}};
  counted.cases.push_back(four);
  write("gloo", counted);
  Result dry = sample_dry_result();
  dry.cases[0].ranks = 8;
  write("dry-h100", dry);
  const std::string text = rank_tables_markdown(root_);
  EXPECT_THAT(
      text,
      HasSubstr("| [52](../lessons/52_ddp/README.md) (stale) | 2; 4; 8, dry | 2 of 6, +2.0 % | 3 of 6, -3.8 % |"));
  EXPECT_THAT(text, HasSubstr("| 2.00 MiB, 0.0 % | 2.00 MiB, +2.0 % | 4.00 KiB |"));
  EXPECT_THAT(text, HasSubstr("| 95.4 MiB, -3.0 % | 95.4 MiB, +1.0 % | 95.4 MiB, -3.8 % |")) << text;
}

TEST_F(RankTables, ADamagedFileIsNamed) {
  test::write_text(root_ / "docs/ranks/gloo/52_ddp.json", "{");
  EXPECT_THAT([&] { rank_tables_markdown(root_); }, testing::ThrowsMessage<FileError>(HasSubstr("52_ddp.json")));
}

}  // namespace
}  // namespace tenfold
