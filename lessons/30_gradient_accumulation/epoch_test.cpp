// The loader whose epoch is no multiple of a batch.
#include <gtest/gtest.h>

#include "epoch.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace {

using namespace tenfold;

Trial trial_with(int64_t batch, int64_t micro_batches, int64_t epoch, const std::string& precision = "float32") {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"layers", int64_t{1}}, {"width", int64_t{8}},   {"heads", int64_t{2}},
                   {"length", int64_t{4}}, {"batch", batch},        {"micro_batches", micro_batches},
                   {"epoch", epoch},       {"precision", precision}};
  Trial trial(record);
  trial.seed = 3;
  return trial;
}

std::vector<int64_t> rows_of(const Trial& trial, int batches) {
  GptEpochs training(trial);
  std::vector<int64_t> rows;
  for (int i = 0; i < batches; ++i) rows.push_back(training.next_batch().first.size(0));
  return rows;
}

TEST(Epoch, EndsWithTheBatchThatIsLeft) {
  EXPECT_EQ(rows_of(trial_with(8, 4, 6), 5), (std::vector<int64_t>{8, 4, 8, 4, 8}));
  EXPECT_EQ(rows_of(trial_with(8, 4, 3), 3), (std::vector<int64_t>{6, 6, 6}));
  EXPECT_EQ(rows_of(trial_with(8, 4, 8), 3), (std::vector<int64_t>{8, 8, 8}));
  EXPECT_EQ(rows_of(trial_with(8, 4, 0), 3), (std::vector<int64_t>{8, 8, 8})) << "an epoch of one update";
}

TEST(Epoch, IsOneStepWithTheMeanOfItsTokens) {
  const auto training = std::make_shared<GptEpochs>(trial_with(8, 4, 6));
  const std::vector<float> losses = {3, 6};  // of four micro-batches, and of two
  size_t updates = 0;
  const Step step = one_epoch(training, [&] {
    training->next_batch();
    return torch::tensor(losses.at(updates++ % 2));
  });
  EXPECT_EQ(step.items, 6 * 2 * 4);
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_NEAR(step.update().item<float>(), 4, 1e-6);
  EXPECT_EQ(updates, 4U);
}

TEST(Epoch, TrainsInTheBitsThatItIsToldTo) {
  EXPECT_FALSE(GptEpochs(trial_with(8, 4, 0)).sixteen_bits);
  EXPECT_TRUE(GptEpochs(trial_with(8, 4, 0, "bfloat16")).sixteen_bits);
}

TEST(Epoch, WhatDoesNotDivideIsRefused) {
  EXPECT_NE(test::message_of<c10::ValueError>([] { GptEpochs(trial_with(8, 3, 0)); }).find("does not divide batch=8"),
            std::string::npos);
  EXPECT_NE(test::message_of<c10::ValueError>([] { GptEpochs(trial_with(8, 4, -1)); }).find("epoch=-1"),
            std::string::npos);
}

}  // namespace
