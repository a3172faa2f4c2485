// What a ladder says of right and wrong results, and that it times only the right ones. The times here are a CPU's, and nobody's.
#include <gtest/gtest.h>

#include <ladder.h>

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

/// Of the program whose only ladder has this contestant beside a right one; `out` gets what it prints.
int exit_code_with(const std::function<std::vector<Tensor>(const Tensor& in)>& work, std::string* out = nullptr, bool timed = false) {
  std::string program = "doubling_bench";
  char* arguments[] = {program.data(), nullptr};
  testing::internal::CaptureStdout();
  const int code = run_at({torch::kCPU, timed}, 1, arguments, {[&](const Place& place) {
                            Ladder ladder = doubling(place);
                            const Tensor in = (ladder.expected[0] / 2).to(torch::kFloat);
                            ladder.contestants.push_back({"theirs", [=] { return work(in); }});
                            return ladder;
                          }});
  const std::string text = testing::internal::GetCapturedStdout();
  if (out != nullptr) *out = text;
  return code;
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
  EXPECT_EQ(exit_code_with([](const Tensor& in) { return std::vector{in * std::numeric_limits<float>::quiet_NaN()}; }), 1);
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

// One test: Google Benchmark's own state does not survive a second run in a process.
TEST(Ladder, WhatIsRightIsTimedBesideACopyAndNothingElse) {
  std::string text;
  EXPECT_EQ(exit_code_with([](const Tensor& in) { return std::vector{in * 2.001}; }, &text, /*timed=*/true), 1);
  for (const char* part : {"doubling/ATen/cold", "doubling/ATen/hot", "doubling/copy/cold", "of copy", "B/s"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  // ATen's speed is its own, in every repetition.
  EXPECT_NE(text.find("1.00x [1.00x, 1.00x]"), std::string::npos) << text;
  EXPECT_NE(text.find("before timing: the result is wrong"), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.find("of copy")).find("theirs"), std::string::npos) << "a row for a wrong contestant:\n" << text;
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
