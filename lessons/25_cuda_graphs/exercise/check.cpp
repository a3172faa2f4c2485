#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "lessons/28_host_syncs/synchronising_calls.h"

namespace {

using torch::Tensor;

constexpr double kRate = 0.1, kMaxNorm = 0.5;
constexpr int kSteps = 6;

/// A linear model, and what the step has read.
struct Model {
  Tensor weight = torch::full({3, 1}, 0.5).requires_grad_(), bias = torch::zeros({1}).requires_grad_();
  std::set<const void*> inputs_read, targets_read;

  CapturableStep step() {
    return CapturableStep(
        {weight, bias},
        [this](const Tensor& inputs, const Tensor& targets) {
          inputs_read.insert(inputs.data_ptr());
          targets_read.insert(targets.data_ptr());
          return (inputs.mm(weight) + bias - targets).square().mean();
        },
        kRate, kMaxNorm);
  }
};

/// A batch of its own values in each step, all alive at once so that no address comes twice.
std::vector<std::pair<Tensor, Tensor>> batches() {
  std::vector<std::pair<Tensor, Tensor>> all;
  for (int i = 0; i < kSteps; ++i)
    all.emplace_back(torch::arange(12.0).view({4, 3}).to(torch::kFloat) / (i + 3), torch::full({4, 1}, 0.3 * i));
  return all;
}

/// Losses of a plain loop.
std::vector<double> losses_of_a_loop() {
  Model model;
  std::vector<double> losses;
  for (const auto& [inputs, targets] : batches()) {
    const Tensor loss = (inputs.mm(model.weight) + model.bias - targets).square().mean();
    model.weight.mutable_grad() = model.bias.mutable_grad() = Tensor();
    loss.backward();
    losses.push_back(loss.item<double>());
    const torch::NoGradGuard no_grad;
    const double norm = (model.weight.grad().square().sum() + model.bias.grad().square().sum()).sqrt().item<double>();
    for (Tensor* parameter : {&model.weight, &model.bias})
      parameter->sub_(parameter->grad() * std::min(1.0, kMaxNorm / norm), kRate);
  }
  return losses;
}

TEST(Exercise25, LossesAreThoseOfAPlainLoop) {
  Model model;
  CapturableStep step = model.step();
  const std::vector<double> expected = losses_of_a_loop();
  size_t i = 0;
  for (const auto& [inputs, targets] : batches()) {
    step.load(inputs, targets);
    step.run();
    // Single precision, and a norm that may be rounded otherwise.
    EXPECT_NEAR(step.loss().item<double>(), expected[i], 1e-4 * expected[i])
        << "hint: step " << i << " trained on other numbers: inputs and targets are those of the last load(), and "
        << "gradients are not added to those of the step before";
    ++i;
  }
}

TEST(Exercise25, TheBatchIsReadAtTheSameAddresses) {
  Model model;
  CapturableStep step = model.step();
  const auto all = batches();
  for (const auto& [inputs, targets] : all) {
    step.load(inputs, targets);
    step.run();
  }
  EXPECT_EQ(model.inputs_read.size(), 1U) << "hint: the inputs were read at " << model.inputs_read.size()
                                          << " addresses; a replay knows one: copy each batch into a tensor that stays";
  EXPECT_EQ(model.targets_read.size(), 1U) << "hint: the targets were read at " << model.targets_read.size()
                                           << " addresses; a replay knows one: copy them as well as the inputs";
}

TEST(Exercise25, TheCallersBatchMayChangeBeforeTheRun) {
  Model model;
  CapturableStep step = model.step();
  const auto all = batches();
  Tensor inputs = all[0].first.clone(), targets = all[0].second.clone();
  step.load(inputs, targets);
  inputs.fill_(100);
  targets.fill_(100);
  step.run();
  EXPECT_NEAR(step.loss().item<double>(), losses_of_a_loop()[0], 1e-4)
      << "hint: load() must copy the values; the caller's tensors are filled again for the next batch";
}

TEST(Exercise25, TheHostReadsNothingWithinTheStep) {
  Model model;
  CapturableStep step = model.step();
  const auto all = batches();
  step.load(all[0].first, all[0].second);
  step.run();
  const auto calls = tenfold::count_synchronising_calls([&] { step.run(); });
  EXPECT_EQ(calls.all(), 0) << "hint: the host waits for the device " << calls.all()
                            << " times within the step, which no capture allows: let the norm be a tensor, and clamp "
                               "what it scales by";
}

TEST(Exercise25, GradientsAndLossStayWhereTheyAre) {
  Model model;
  CapturableStep step = model.step();
  const auto all = batches();
  std::set<const void*> gradients, losses;
  std::vector<Tensor> kept;  // what is replaced stays alive, so that its address does not come again
  for (const auto& [inputs, targets] : all) {
    step.load(inputs, targets);
    step.run();
    for (const Tensor& kept_alive : {model.weight.grad(), model.bias.grad(), step.loss()}) kept.push_back(kept_alive);
    gradients.insert(model.weight.grad().data_ptr());
    gradients.insert(model.bias.grad().data_ptr());
    losses.insert(step.loss().data_ptr());
  }
  EXPECT_EQ(gradients.size(), 2U) << "hint: the gradients of the two parameters were at " << gradients.size()
                                  << " addresses: zero them in place, and backward() adds to them there";
  EXPECT_EQ(losses.size(), 1U) << "hint: the loss has moved: copy it into a tensor that is made once";
}

TEST(Exercise25, SmallGradientsAreNotScaled) {
  const Tensor weight = torch::ones({1}).requires_grad_();
  CapturableStep step(
      {weight}, [&](const Tensor& inputs, const Tensor&) { return (inputs * weight).sum(); }, kRate,
      /*max_norm=*/10);
  step.load(torch::full({1}, 2.0), torch::zeros({1}));
  step.run();
  EXPECT_NEAR(weight.item<double>(), 1 - kRate * 2, 1e-6)
      << "hint: the norm is below its limit: scale by 1 at the most";
}

}  // namespace
