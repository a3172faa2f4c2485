// Published runs on many GPUs, between the model's bounds or not.
#include "common/pages/book/published_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;

class PublishedScaling : public testing::Test {
 protected:
  void write(const std::string& text) const { test::write_text(root_ / "docs/published_scaling.json", text); }

  const test::Scratch scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

// 10 s alone; 2 * 15/16 * 4 bytes * 1e9 over 1 GB/s are 7.5 s more, of which the backward pass can hide 6.67 s: 57 to
// 92 %.
constexpr const char* kRuns = R"({"schema": "tenfold.published_scaling/1", "tables": [
 {"name": "run", "setup": "nodes", "source": "somebody", "url": "https://x.org",
  "cluster": {"per_node": 8, "inside_gbyte_per_s": 10, "node_gbit_per_s": 8},
  "rows": [
   {"model": "large", "parameters": 1e9, "per_step": 100, "measured_gpus": 1, "rate": 10,
    "points": [{"gpus": 16, "rate": 112}]},
   {"model": "small", "parameters": 1e6, "per_step": 100, "measured_gpus": 1, "rate": 10,
    "points": [{"gpus": 16, "efficiency": 0.5}]}]}]})";

TEST_F(PublishedScaling, SaysWhatLiesBetweenTheBounds) {
  write(kRuns);
  const std::string text = published_scaling_markdown(root_);
  EXPECT_THAT(text, HasSubstr("| run | large | 1 to 16 | 70.0 % | 57.1 % | 92.3 % | yes |"));
  EXPECT_THAT(text, HasSubstr("| run | small | 1 to 16 | 50.0 % | 99.9 % | 100.0 % | no |"));
  EXPECT_THAT(text, HasSubstr("1 of 2 published efficiencies lie between the two bounds; the farthest is 49.9 points"));
  EXPECT_THAT(text, HasSubstr("Of 1 pairs of models of a run that are more than 2 points apart, 0 stand in the"));
  EXPECT_THAT(text, HasSubstr("- *run*: nodes. [somebody](https://x.org)."));
}

TEST_F(PublishedScaling, ForecastsTheLastRun) {
  write(kRuns);
  const std::string text = scaling_forecast_markdown(root_);
  EXPECT_THAT(text, HasSubstr("large, 10 s a step on 1 GPUs (published):"));
  EXPECT_THAT(text, HasSubstr("| 25 Gbit/s | 512 |"));
}

TEST_F(PublishedScaling, ADamagedFileIsNamed) {
  for (const char* text : {"{", R"({"schema": "other", "tables": []})",
                           R"({"schema": "tenfold.published_scaling/1", "tables": [{"name": 1}]})"}) {
    write(text);
    EXPECT_THAT([&] { published_scaling_markdown(root_); },
                testing::ThrowsMessage<FileError>(HasSubstr("published_scaling.json")));
  }
}

}  // namespace
}  // namespace tenfold
