// The metric of a held-out set, and what an evaluation may and may not change.
#include <gtest/gtest.h>

#include "eval_mode.h"
#include "evaluation.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace {

using namespace tenfold;
using torch::Tensor;

Trial trial_with(std::map<std::string, SettingValue> changed, const Workload& workload = gpt_workload) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"layers", int64_t{1}}, {"width", int64_t{16}}, {"heads", int64_t{2}},
                   {"length", int64_t{8}}, {"batch", int64_t{2}},  {"held_out", int64_t{9}}};
  for (auto& [name, value] : changed) record->given[name] = value;
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 3;
  return trial;
}

/// Not the first: its losses are nearly the same for every text.
std::shared_ptr<Evaluated> trained(std::map<std::string, SettingValue> changed = {}, int updates = 3,
                                   const Workload& workload = gpt_workload) {
  torch::manual_seed(3);
  auto work = make_evaluated(trial_with(std::move(changed), workload));
  for (int i = 0; i < updates; ++i) work->train_one_batch();
  return work;
}

std::map<std::string, Tensor> copies(const Parameters& state) {
  std::map<std::string, Tensor> all;
  for (const auto& item : state) all[item.key()] = item.value().detach().clone();
  return all;
}

/// Names of the parameters and statistics that are no longer as they were.
std::vector<std::string> changed_since(const std::map<std::string, Tensor>& before, const Parameters& state) {
  std::vector<std::string> changed;
  for (const auto& item : state) {
    if (!item.value().equal(before.at(item.key()))) changed.push_back(item.key());
  }
  return changed;
}

TEST(Evaluation, BatchesHoldEachRowOnceAndTheLastIsSmaller) {
  const auto work = trained({}, 0);
  std::vector<int64_t> rows;
  std::vector<Tensor> inputs, targets;
  for (const auto& [x, y] : work->batches(4)) {
    rows.push_back(x.size(0));
    inputs.push_back(x);
    targets.push_back(y);
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{4, 4, 1}));
  EXPECT_TRUE(torch::cat(inputs).equal(work->inputs));
  EXPECT_TRUE(torch::cat(targets).equal(work->targets));
  EXPECT_EQ(work->batches(100).size(), 1U);
}

TEST(Evaluation, TheMeanDoesNotDependOnTheBatch) {
  const auto work = trained();
  const torch::NoGradGuard no_graph;
  const double whole = work->loss(work->inputs, work->targets).item<double>();
  for (const int64_t rows : {1, 2, 4, 8, 9, 20})
    EXPECT_NEAR(mean_loss(*work, rows).item<double>(), whole, 1e-6) << rows;

  double means = 0;
  for (const auto& [x, y] : work->batches(8)) means += work->loss(x, y).item<double>() / 2;
  EXPECT_GT(std::abs(means - whole), 1e-4) << "the last batch has one row: a mean of means must not pass for the mean";
}

TEST(Evaluation, HasNoGraphLeft) {
  const auto work = trained();
  EXPECT_FALSE(mean_loss(*work, 4).requires_grad()) << "a mean that is kept would keep every batch's graph";
}

TEST(Evaluation, NeitherParametersNorGradientsChange) {
  for (const Workload& workload : {gpt_workload, convnet_workload}) {
    const auto work = trained({}, 3, workload);
    const auto before = copies(work->state);
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : work->model->parameters()) gradients.push_back(parameter.grad().clone());
    {
      const torch::NoGradGuard no_graph;
      const EvalMode eval(*work->model);
      mean_loss(*work, 4);
    }
    EXPECT_EQ(changed_since(before, work->state), std::vector<std::string>{}) << workload.name;
    size_t i = 0;
    for (const Tensor& parameter : work->model->parameters()) EXPECT_TRUE(parameter.grad().equal(gradients.at(i++)));
  }
}

TEST(EvalMode, EveryModuleGetsItsOwnModeBack) {
  NormalisedConvNet model(ConvNetOptions{});
  model->norm2->eval();  // frozen, as for fine-tuning
  try {
    const EvalMode eval(*model);
    for (const auto& module : model->modules()) EXPECT_FALSE(module->is_training()) << module->name();
    throw std::runtime_error("out of memory");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "out of memory");
  }
  EXPECT_TRUE(model->is_training() && model->norm1->is_training() && model->net->conv1->is_training());
  EXPECT_FALSE(model->norm2->is_training());
  {
    const EvalMode outer(*model);
    const EvalMode inner(*model);
  }
  EXPECT_TRUE(model->is_training());
}

// What makes the lesson's trap a trap: no_grad alone does not protect the model.
TEST(Evaluation, InTrainModeTheRunningStatisticsChange) {
  const auto work = trained({}, 3, convnet_workload);
  const auto before = copies(work->state);
  const torch::NoGradGuard no_graph;
  mean_loss(*work, 4);
  EXPECT_EQ(changed_since(before, work->state), (std::vector<std::string>{"norm1.running_mean", "norm1.running_var",
                                                                          "norm2.running_mean", "norm2.running_var"}));
}

TEST(Evaluation, WhatInferenceModeMadeCannotBeTrainedOn) {
  const Tensor weight = torch::ones({2}, torch::requires_grad());
  Tensor made;
  {
    const c10::InferenceMode no_graph;
    made = torch::ones({2}) * 2;
  }
  EXPECT_NE(test::message_of<c10::Error>([&] { (weight * made).sum().backward(); }).find("Inference tensors"),
            std::string::npos);
  (weight * made.clone()).sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::full({2}, 2.0)));
}

TEST(Evaluation, NoRowsAndTooManyAreRefused) {
  for (const Setting<int64_t>& setting : {kEvaluationBatch, kLargerBatch, kHeldOut})
    EXPECT_THROW(parse_setting(setting, "0"), std::invalid_argument) << setting.name;
  const std::string too_many = test::message_of<c10::ValueError>(
      [] { make_evaluated(trial_with({{"held_out", int64_t{10001}}}, convnet_workload)); });
  EXPECT_NE(too_many.find("held_out=10001: there are 10000 images"), std::string::npos) << too_many;
}

}  // namespace
