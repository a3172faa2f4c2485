// A case over links of several rates.
#include "common/pages/book/link_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;

class LinkRates : public testing::Test {
 protected:
  void write(const std::string& rate, const Result& result) const {
    const std::filesystem::path folder = root_ / "docs/links/52_ddp";
    std::filesystem::create_directories(folder);
    write_result(folder / (rate + ".json"), result);
  }

  const test::Scratch scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

TEST_F(LinkRates, SlowestFirstWithEachTechniquesSpeed) {
  EXPECT_EQ(link_rates_markdown(root_, "52_ddp"), "Not measured yet.\n");
  const Result result = sample_result();
  write("1gbit", result);
  write("200mbit", result);
  const std::string text = link_rates_markdown(root_, "52_ddp");
  EXPECT_LT(text.find("| 200 Mbit/s |"), text.find("| 1 Gbit/s |")) << text;
  EXPECT_THAT(text,
              HasSubstr("| link | " + result.cases[0].variants[0].name + " | " + result.cases[0].variants[1].name));
  EXPECT_THAT(text, HasSubstr(", 0.8"));
  EXPECT_THAT(text, HasSubstr("stale")) << "no lesson of this name has the code that was measured";
  EXPECT_THAT(text, HasSubstr("; case `" + result.cases[0].name + "`, one rank on each of two hosts"));
}

TEST_F(LinkRates, AnotherCaseAndANameThatIsNoRateAreRefused) {
  Result result = sample_result();
  write("1gbit", result);
  result.cases[0].name = "another";
  write("2gbit", result);
  EXPECT_THAT([&] { link_rates_markdown(root_, "52_ddp"); }, testing::ThrowsMessage<FileError>(HasSubstr("one case")));
  std::filesystem::remove(root_ / "docs/links/52_ddp/2gbit.json");
  write("fast", sample_result());
  EXPECT_THAT([&] { link_rates_markdown(root_, "52_ddp"); },
              testing::ThrowsMessage<FileError>(HasSubstr("fast.json: its name is no rate")));
}

}  // namespace
}  // namespace tenfold
