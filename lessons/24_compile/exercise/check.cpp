#include <gtest/gtest.h>

#include EXERCISE

#include <cstdint>

namespace {

constexpr Outcome kCompiled = Outcome::compiled, kReused = Outcome::reused, kEager = Outcome::eager;

TEST(Exercise24, AKnownShapeIsNotCompiledAgain) {
  CompiledFunction function;
  EXPECT_EQ(function.call({8, 64}), kCompiled) << "hint: the first call has no graph yet";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(function.call({8, 64}), kReused) << "hint: the graph for 8 x 64 is there";
}

TEST(Exercise24, AGraphOfOneShapeDoesNotServeAnother) {
  CompiledFunction function;
  function.call({8, 64});
  EXPECT_EQ(function.call({8, 32}), kCompiled)
      << "hint: the first graph is made for exactly 8 x 64; used for 8 x 32 it reads behind the end";
}

TEST(Exercise24, TwelveLengthsNeedTwoGraphs) {
  CompiledFunction function;
  EXPECT_EQ(function.call({8, 20}), kCompiled);
  EXPECT_EQ(function.call({8, 21}), kCompiled);
  for (int64_t length = 22; length < 32; ++length) {
    EXPECT_EQ(function.call({8, length}), kReused)
        << "hint: the second graph was made when the columns had been 20 and 21: leave a size open that has changed";
  }
}

TEST(Exercise24, ASizeThatNeverChangedStaysFixed) {
  CompiledFunction function;
  function.call({8, 20});
  function.call({8, 21});
  EXPECT_EQ(function.call({4, 30}), kCompiled)
      << "hint: rows were 8 in every call so far, so both graphs are for 8 rows";
  EXPECT_EQ(function.call({2, 3}), kReused) << "hint: now both sizes have changed, and the third graph takes any";
}

TEST(Exercise24, OneIsNeverOpen) {
  CompiledFunction function;
  function.call({8, 20});
  function.call({8, 21});
  EXPECT_EQ(function.call({8, 1}), kCompiled)
      << "hint: a size of 1 may be broadcast: an open size is two or more, and 1 has a graph of its own";
  EXPECT_EQ(function.call({8, 1}), kReused) << "hint: a size of 1 has a graph of its own by now";
  EXPECT_EQ(function.call({8, 40}), kReused) << "hint: a size of 1 has changed nothing for the others";
}

TEST(Exercise24, WithAllGraphsMadeTheRestIsEager) {
  CompiledFunction function(2);
  function.call({8, 20});
  function.call({8, 21});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(function.call({8, 1}), kEager)
        << "hint: there are as many graphs as may be; what none of them takes stays eager, for ever";
  }
  EXPECT_EQ(function.call({8, 22}), kReused) << "hint: graphs that are there still serve";
}

// Numbers that 64 bits hold exactly.
TEST(Exercise24, PaidBackAfterTheLastStepThatCounts) {
  EXPECT_EQ(steps_until_paid_back(1.0, 0.5, 0.25), 4) << "hint: 1 s at a quarter of a second saved in each step";
  EXPECT_EQ(steps_until_paid_back(1.125, 0.5, 0.25), 5) << "hint: after 4 steps an eighth of a second is still missing";
  EXPECT_EQ(steps_until_paid_back(0.0, 0.5, 0.25), 0) << "hint: nothing to pay back";
}

TEST(Exercise24, ALossIsNeverPaidBack) {
  EXPECT_EQ(steps_until_paid_back(1.0, 0.25, 0.25), std::nullopt) << "hint: a step that saves nothing never pays";
  EXPECT_EQ(steps_until_paid_back(1.0, 0.25, 0.5), std::nullopt) << "hint: a slower step never pays";
}

}  // namespace
