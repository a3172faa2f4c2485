#include "nan_hunt.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tenfold {
namespace {

torch::Tensor features() { return torch::randn({4, 8}).requires_grad_(); }

TEST(NanHunt, TheFirstOperatorIsNamedAndNotThoseThatHandItOn) {
  const torch::Tensor logits = torch::tensor({{1000.F, 0.F}});
  FiniteWatch watch;
  const torch::Tensor loss = log_of_softmax(logits);
  EXPECT_FALSE(torch::isfinite(loss).item<bool>());
  EXPECT_EQ(watch.first(), "aten::log");
}

TEST(NanHunt, WhatIsFiniteNamesNothing) {
  FiniteWatch watch;
  torch::log_softmax(features(), 1).mean().backward();
  EXPECT_EQ(watch.first(), "");
  EXPECT_GT(watch.checked(), 2);
}

TEST(NanHunt, MemoryThatNobodyHasWrittenIsNoFind) {
  const torch::Tensor like = torch::ones({2});
  const auto first_of = [](const auto& make) {
    torch::full({1024}, NAN);  // its block is free now, and is handed out again
    FiniteWatch watch;
    EXPECT_EQ(make().numel(), 1024);
    return watch.first();
  };
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(first_of([] { return torch::empty({1024}); }), "");
    EXPECT_EQ(first_of([&] { return like.new_empty({1024}); }), "");
    EXPECT_EQ(first_of([] { return torch::empty({0}).resize_({1024}); }), "");
  }
}

TEST(NanHunt, AnomalyModeNamesTheNodeOfBackward) {
  EXPECT_TRUE(torch::isfinite(distance_of_equals(features())).item<bool>()) << "the loss itself shows nothing";
  EXPECT_EQ(anomaly_of(distance_of_equals(features())), "PowBackward0");
  EXPECT_EQ(anomaly_of(features().square().sum()), "");
}

TEST(NanHunt, TheWatchSeesTheInfinityBeforeTheNan) {
  const torch::Tensor loss = distance_of_equals(features());
  FiniteWatch watch;
  loss.backward();
  EXPECT_EQ(watch.first(), "aten::div") << "the slope of the root, 1 / (2 * 0)";
}

}  // namespace
}  // namespace tenfold
