// What GPUs took for a kernel's rungs, from reports of its benchmark.
#include "common/pages/book/timed_ladders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/files.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class TimedLadders : public testing::Test {
 protected:
  TimedLadders() {
    const Json rungs = {{{"name", "naive"}}, {{"name", "tiled"}}};
    const Json times = {{"schema", "tenfold.kernel_times/2"}, {"kernels", {{{"operation", "copy"}, {"rungs", rungs}}}}};
    test::write_text(root_ / "results/compiler/kernel_times.json", times.dump());
  }
  /// A contestant's rounds, twelve of `us` microseconds each.
  static void add(Json& report, const std::string& name, double us) {
    for (int round = 0; round < 12; ++round) {
      report["benchmarks"].push_back(
          {{"name", name}, {"run_type", "iteration"}, {"real_time", us}, {"time_unit", "us"}, {"bytes/s", 1e6 / us}});
    }
  }
  Json report(const std::string& gpu) const {
    return {{"context", {{"gpu", gpu}, {"commit", "265cce0b5f774d23"}, {"date", "2026-11-29T22:30:21+00:00"}}},
            {"benchmarks", Json::array()}};
  }
  void publish(const std::string& machine, const Json& report) {
    test::write_text(root_ / "results" / machine / "bench/copy.json", report.dump());
  }
  test::Scratch scratch_;
  std::filesystem::path root_ = scratch_.path();
};

TEST_F(TimedLadders, AGpusTimesStandBesideTheOthers) {
  Json timed = report("NVIDIA H200");
  add(timed, "copy, Float, 64 x 64/ATen/cold", 300), add(timed, "copy, Float, 64 x 64/ATen/hot", 250);
  add(timed, "copy, Float, 64 x 64/rung 1/cold", 200), add(timed, "copy, Float, 64 x 64/rung 1/hot", 150);
  add(timed, "copy, Float, 128 x 128/rung 0/cold", 800);
  for (size_t i = 0; i < 48; ++i) timed["benchmarks"][i].update({{"sm_mhz", i == 5 ? 1515 : 1980}, {"power_w", 480.6}});
  publish("h200", timed);
  const std::string text = timed_ladders_markdown(root_, "copy");
  EXPECT_THAT(text, HasSubstr("**copy, Float, 64 x 64**\n\nSM at 1515 to 1980 MHz, 481 W.\n\n| |"));
  EXPECT_THAT(text, HasSubstr("**copy, Float, 128 x 128**\n\n| |")) << "whose report does not say it";
  EXPECT_THAT(text, HasSubstr("**h200**: NVIDIA H200; 2026-11-29, commit 265cce0b5f, 12 rounds."));
  EXPECT_THAT(text, HasSubstr("\n\n| | empty caches | warm caches | of the card | speed over ATen |\n"));
  EXPECT_THAT(text, HasSubstr("| rung 1, tiled | 200 us | 150 us | DRAM "));
  EXPECT_THAT(text, HasSubstr("| 1.50x"));
  const size_t fold = text.find("<details>"), second = text.find("**copy, Float, 128 x 128**");
  EXPECT_LT(fold, second) << "other sizes are folded";
  EXPECT_THAT(text, HasSubstr("| rung 0, naive | 800 us | - |"));
}

TEST_F(TimedLadders, WithoutAGpuASentenceSaysSo) {
  EXPECT_EQ(timed_ladders_markdown(root_, "copy"), "No GPU has timed it yet.\n");
  publish("2x-sample", report(""));
  EXPECT_EQ(timed_ladders_markdown(root_, "copy"), "No GPU has timed it yet.\n") << "a CPU only checks";
  test::write_text(root_ / "results/2x-sample/bench/copy.json", "{");
  EXPECT_THAT(test::message_of<FileError>([&] { timed_ladders_markdown(root_, "copy"); }),
              HasSubstr("copy.json: is no benchmark report: "));
}

}  // namespace
}  // namespace tenfold
