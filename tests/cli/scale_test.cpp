// scale: a measured step on more GPUs.

#include <nlohmann/json.hpp>

#include "sandbox.h"

namespace tenfold {
namespace {

class Scale : public Sandbox {};

TEST_F(Scale, ATableAndTheSameAsJson) {
  const std::string flags = "scale --parameters 1e9 --step-ms 1000 --gpus 8,64 --network 100";
  const Ran ran = tenfold(flags);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "1.00 G parameters, all-reduced; 1.0 s a step on 8")) << ran.out;
  const auto rows = nlohmann::json::parse(tenfold(flags + " --json").out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("gpus"), 8);
  EXPECT_EQ(rows[0].at("most_step_seconds"), 1.0) << "as it was measured";
  // 2 * 63/64 * 4 GB at 12.5 GB/s
  EXPECT_NEAR(rows[1].at("exchange_seconds").get<double>(), 0.63, 0.02);
  EXPECT_LT(rows[1].at("least_efficiency").get<double>(), rows[1].at("most_efficiency").get<double>());
}

TEST_F(Scale, ShardedParametersAreGatheredTwice) {
  const std::string flags = "scale --parameters 1e9 --step-ms 1000 --gpus 64 --network 100 --json";
  const auto whole = nlohmann::json::parse(tenfold(flags).out);
  const auto sharded = nlohmann::json::parse(tenfold(flags + " --sharded").out);
  // 4 bytes twice, against 4 once and 2 twice.
  EXPECT_NEAR(whole[0].at("exchange_seconds").get<double>(), sharded[0].at("exchange_seconds").get<double>(), 0.05);
}

TEST_F(Scale, BadInputIsOneLine) {
  for (const auto& [flags, part] :
       {std::pair("", "--parameters is missing; for example: ./tenfold scale --parameters"),
        std::pair("--parameters 1e9", "--step-ms is missing"), std::pair("--parameters -3 --step-ms 1", "--parameters"),
        std::pair("--parameters 1e9 --step-ms 1 --gpus 8,none", "--gpus"),
        std::pair("--parameters 1e9 --step-ms 1 --per-node 0", "--per-node")}) {
    const Ran ran = tenfold(std::string("scale ") + flags);
    EXPECT_EQ(ran.code, 2) << flags;
    EXPECT_TRUE(has(ran.err, part)) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

}  // namespace
}  // namespace tenfold
