// What a ladder says of right and wrong results, and that it times only the right ones. The times here are a CPU's, and
// nobody's.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/ladder.h"
#include "bench/ladder_report.h"
#include "bench/ladder_times.h"
#include "common/base/files.h"

#include "tests/support/support.h"

namespace tenfold::bench {
namespace {

using torch::Tensor;

Ladder doubling(const Place& place) {
  const Tensor in = place.normal({3, 5});
  return {.name = "doubling",
          .bytes = 120,
          .expected = {in.to(torch::kDouble) * 2},
          .tolerance = 1e-6,
          .contestants = {{"ATen", [=] { return std::vector{in * 2}; }}}};
}

/// What a program returned and printed.
struct Done {
  int code;
  std::string text;
};

Done run_with(const Builders& build, bool timed, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), "doubling_bench");
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_at({torch::kCPU, timed}, static_cast<int>(flags.size()), arguments.data(), build);
  const std::string out = testing::internal::GetCapturedStdout();
  return {code, out + testing::internal::GetCapturedStderr()};
}

using Work = std::function<std::vector<Tensor>(const Tensor& in)>;

/// A ladder in which this contestant stands beside a right one.
std::function<Ladder(const Place&)> beside(const Work& work) {
  return [work](const Place& place) {
    Ladder ladder = doubling(place);
    const Tensor in = (ladder.expected[0] / 2).to(torch::kFloat);
    ladder.contestants.push_back({"theirs", [=] { return work(in); }});
    return ladder;
  };
}

/// Of the program whose only ladder that is; `out` gets what it prints.
int exit_code_with(const Work& work, std::string* out = nullptr) {
  const Done done = run_with({beside(work)}, /*timed=*/false);
  if (out != nullptr) *out = done.text;
  return done.code;
}

std::vector<Tensor> out_of_memory(const Tensor& in) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2 GiB.\nMore lines");
  return {in};
}

TEST(Place, TimesThePassAtItsShapeAndChecksAtASmallOne) {
  const simt::Pass pass{.name = "doubling",
                        .shape = {{"rows", 8192}, {"columns", 300}},
                        .work = [](const simt::Shape& shape, int64_t value_bytes) {
                          return simt::Work{.flops = static_cast<double>(shape.at("rows")),
                                            .least_bytes = shape.at("columns") * value_bytes};
                        }};
  const simt::Shape small = {{"rows", 3}, {"columns", 5}};
  const Place timed{torch::kCPU, true}, checked{torch::kCPU, false};
  EXPECT_EQ(timed.pick(pass, small), (simt::Shape{{"rows", 8192}, {"columns", 300}}));
  EXPECT_EQ(checked.pick(pass, small), small);
  EXPECT_THROW(checked.pick(pass, {{"rows", 3}}), std::invalid_argument);
  EXPECT_THROW(timed.pick(pass, {{"rows", 3}, {"width", 5}}), std::invalid_argument);
  EXPECT_EQ(least_bytes_of(pass, small, torch::kFloat), 20);
  EXPECT_EQ(least_bytes_of(pass, small, torch::kBFloat16), 10);
  EXPECT_EQ(flops_of(pass, small, torch::kFloat), 3);
}

TEST(Ladder, RightResultsPass) {
  std::string text;
  EXPECT_EQ(exit_code_with([](const Tensor& in) { return std::vector{in + in}; }, &text), 0) << text;
}

TEST(Ladder, AWrongResultFailsAndIsNamed) {
  std::string text;
  EXPECT_EQ(exit_code_with([](const Tensor& in) { return std::vector{in * 2.001}; }, &text), 1);
  EXPECT_NE(text.find("theirs: the result is wrong"), std::string::npos) << text;
  EXPECT_NE(text.find("ATen: right"), std::string::npos) << text;
}

TEST(Ladder, OneWrongElementFails) {
  EXPECT_EQ(exit_code_with([](const Tensor& in) {
              const Tensor out = in * 2;
              out[2][4] += 1;
              return std::vector{out};
            }),
            1);
}

TEST(Ladder, NaNFails) {
  EXPECT_EQ(exit_code_with([](const Tensor& in) { return std::vector{in * std::numeric_limits<float>::quiet_NaN()}; }),
            1);
}

TEST(Ladder, AResultThatIsOnlyRightTheFirstTimeFails) {
  auto kept = std::make_shared<Tensor>();
  EXPECT_EQ(exit_code_with([kept](const Tensor& in) {
              if (!kept->defined()) *kept = in * 2;
              return std::vector{*kept};
            }),
            1);
}

TEST(Ladder, AnotherShapeFails) {
  EXPECT_EQ(exit_code_with([](const Tensor& in) { return std::vector{(in * 2).reshape({15})}; }), 1);
  EXPECT_EQ(exit_code_with([](const Tensor& in) { return std::vector{in * 2, in}; }), 1);
}

TEST(Ladder, WhatThrowsFailsWithTheReasonAndTheOthersAreChecked) {
  std::string text;
  EXPECT_EQ(
      exit_code_with([](const Tensor&) -> std::vector<Tensor> { throw std::runtime_error("no such rung"); }, &text), 1);
  EXPECT_NE(text.find("theirs: no such rung"), std::string::npos) << text;
  EXPECT_NE(text.find("ATen: right"), std::string::npos) << text;
}

TEST(Ladder, WhatIsRightIsTimedBesideACopyAndNothingElse) {
  const test::Scratch scratch;
  const auto file = scratch.path() / "report.json";
  const Done done = run_with({beside([](const Tensor& in) { return std::vector{in * 2.001}; })}, /*timed=*/true,
                             {"--benchmark_out=" + file.string(), "--benchmark_out_format=json"});
  EXPECT_EQ(done.code, 1);
  for (const char* part : {"copy", "ATen", "of copy", "B/s", "theirs: FAILED: the result is wrong"})
    EXPECT_NE(done.text.find(part), std::string::npos) << part << " is not in\n" << done.text;
  // ATen's speed is its own, in every round.
  EXPECT_NE(done.text.find("1.00x [1.00x, 1.00x]"), std::string::npos) << done.text;

  const auto json = nlohmann::json::parse(read_text(file));
  EXPECT_TRUE(json.at("context").contains("commit"));
  EXPECT_NE(json.at("context").at("doubling/theirs").get<std::string>().find("FAILED: the result is wrong"),
            std::string::npos);
  std::map<std::string, int> rounds;
  for (const auto& run : json.at("benchmarks")) {
    ++rounds[run.at("name")];
    EXPECT_GT(run.at("real_time"), 0);
    EXPECT_GT(run.at("bytes/s"), 0);
  }
  const std::map<std::string, int> expected{
      {"doubling/ATen/cold", 12}, {"doubling/ATen/hot", 12}, {"doubling/copy/cold", 12}, {"doubling/copy/hot", 12}};
  EXPECT_EQ(rounds, expected);
}

TEST(Ladder, WhatDoesNotFitIsSkippedWithTheReasonAndIsNoFailure) {
  const Done contestant = run_with({beside(out_of_memory)}, /*timed=*/true);
  EXPECT_EQ(contestant.code, 0);
  EXPECT_NE(contestant.text.find("theirs: skipped: does not fit: CUDA out of memory"), std::string::npos)
      << contestant.text;
  EXPECT_EQ(contestant.text.find("More lines"), std::string::npos) << contestant.text;

  const auto too_large = [](const Place& place) -> Ladder {
    out_of_memory(place.normal({1}));
    return {};
  };
  const Done ladder = run_with({too_large, doubling}, /*timed=*/true);
  EXPECT_EQ(ladder.code, 0);
  EXPECT_NE(ladder.text.find("ladder 1 of 2: does not fit"), std::string::npos) << ladder.text;
  EXPECT_NE(ladder.text.find("ATen"), std::string::npos) << ladder.text;
}

TEST(Ladder, WhatIsLeftOutIsNamed) {
  const auto build = [](const Place& place) {
    Ladder ladder = doubling(place);
    skip_rungs(ladder, 1, 2, "it needs another GPU");
    return ladder;
  };
  for (const bool timed : {false, true}) {
    const Done done = run_with({build}, timed);
    EXPECT_EQ(done.code, 0);
    EXPECT_NE(done.text.find("rung 1: skipped: it needs another GPU"), std::string::npos) << done.text;
  }
}

TEST(Ladder, ABudgetIsKeptAndWhatWasTimedIsThere) {
  const test::Scratch scratch;
  const auto file = scratch.path() / "report.json";
  const Work slow = [](const Tensor& in) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return std::vector{in + in};
  };
  const auto slow_to_build = [](const Place& place) {
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    return doubling(place);
  };
  const Done done = run_with({slow_to_build, beside(slow), doubling}, /*timed=*/true,
                             {"--budget=0.8", "--benchmark_out=" + file.string()});
  EXPECT_EQ(done.code, 0);
  EXPECT_NE(done.text.find("ladder 3 of 3: the time was up"), std::string::npos) << done.text;
  const auto json = nlohmann::json::parse(read_text(file));
  EXPECT_EQ(json.at("context").at("ladder 3 of 3"), "skipped: the time was up");
  EXPECT_FALSE(json.at("benchmarks").empty());
}

/// Launches of a contestant that takes so long, of them two for the check.
int launches_of_slow(std::chrono::milliseconds time) {
  int launches = 0;
  const Done done = run_with({beside([&](const Tensor& in) {
                               ++launches;
                               std::this_thread::sleep_for(time);
                               return std::vector{in + in};
                             })},
                             /*timed=*/true);
  EXPECT_EQ(done.code, 0) << done.text;
  EXPECT_NE(done.text.find("theirs"), std::string::npos) << done.text;
  return launches;
}

TEST(Ladder, AContestantThatIsFarTooSlowIsTimedOnce) { EXPECT_EQ(launches_of_slow(std::chrono::milliseconds(250)), 3); }

TEST(Ladder, WhatMayHaveBeenInterruptedIsTimedAgain) {
  // Unless its first sample took five times as long as it sleeps, which a busy machine may do to it now and then.
  int launches = 0;
  for (int i = 0; i < 5 && launches != 4; ++i) launches = launches_of_slow(std::chrono::milliseconds(40));
  EXPECT_EQ(launches, 4);
}

TEST(Ladder, TheTableSaysWhatSlowedTheGpu) {
  Measured measured{.ladder = "copying", .bytes = 1e9, .rows = {{.name = "ours", .cold = {1e-3, 2e-3}, .hot = {}}}};
  EXPECT_EQ(table(measured).find("MHz"), std::string::npos);
  measured.states = {{.sm_mhz = 1980, .temperature_c = 40, .slowed_by = 1},  // 1: idle
                     {.sm_mhz = 1200, .temperature_c = 85, .slowed_by = 0x20 | 0x04}};
  const std::string text = table(measured);
  EXPECT_NE(text.find("1200 to 1980 MHz, 40"), std::string::npos) << text;
  EXPECT_NE(text.find("slowed by power cap, heat in 1 of 2 rounds"), std::string::npos) << text;
  EXPECT_FALSE(GpuMonitor("no such GPU").read());
}

TEST(Ladder, BadFlagsAreOneLine) {
  for (const char* flag : {"--budget=0", "--budget=soon", "--budget", "--nonsense", "--benchmark_out_format=csv",
                           "--benchmark_out=/proc/report.json"}) {
    const Done done = run_with({doubling}, /*timed=*/false, {flag});
    EXPECT_EQ(done.code, 2) << flag;
    EXPECT_EQ(std::count(done.text.begin(), done.text.end(), '\n'), 1) << done.text;
  }
  EXPECT_EQ(run_with({doubling}, /*timed=*/false, {"--help"}).code, 0);
}

TEST(Ladder, RungsAreNumberedFromZero) {
  Ladder ladder;
  add_rungs(ladder, 2, [](int rung) { return std::vector{torch::full({1}, rung)}; });
  ASSERT_EQ(ladder.contestants.size(), 2U);
  EXPECT_EQ(ladder.contestants[1].name, "rung 1");
  EXPECT_EQ(ladder.contestants[1].work()[0].item<int>(), 1);
}

}  // namespace
}  // namespace tenfold::bench
