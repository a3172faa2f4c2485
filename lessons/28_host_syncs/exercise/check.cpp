#include <gtest/gtest.h>

#include EXERCISE

#include "lessons/28_host_syncs/synchronising_calls.h"

#include <utility>
#include <vector>

namespace {

using torch::Tensor;
using Lines = std::vector<std::pair<int64_t, double>>;

/// Losses with a graph, as a training step has them: 1, 2, 3, ...
Tensor loss_of(int64_t step, const Tensor& weight) { return (weight * static_cast<double>(step + 1)).sum(); }

/// What is reported of so many steps.
Lines lines_of(int64_t every, int64_t steps) {
  Lines lines;
  const Tensor weight = torch::ones({1}, torch::requires_grad());
  LossLog log(every, [&](int64_t step, double mean) { lines.emplace_back(step, mean); });
  for (int64_t i = 0; i < steps; ++i) log.add(loss_of(i, weight));
  log.finish();
  return lines;
}

TEST(Exercise28, EveryLineHasTheMeanOfItsSteps) {
  EXPECT_EQ(lines_of(5, 15), (Lines{{5, 3.0}, {10, 8.0}, {15, 13.0}}))
      << "hint: each line has the mean of its own steps: begin the next sum at zero";
}

TEST(Exercise28, TheStepsThatAreLeftOverAreALineToo) {
  EXPECT_EQ(lines_of(5, 7), (Lines{{5, 3.0}, {7, 6.5}}))
      << "hint: finish() divides by the number of steps that are left over, not by `every`";
  EXPECT_EQ(lines_of(5, 10).size(), 2U) << "hint: nothing is left over here, so finish() reports nothing";
  EXPECT_TRUE(lines_of(5, 0).empty()) << "hint: without a step there is nothing to report";
}

TEST(Exercise28, TheHostReadsOneValueForEachLine) {
  const auto calls = tenfold::count_synchronising_calls([] { lines_of(20, 100); });
  EXPECT_EQ(calls.all(), 5) << "hint: 100 steps make 5 lines, and the host waited " << calls.all()
                            << " times: let the sum stay on the device until a line is complete";
}

TEST(Exercise28, NothingIsReadBetweenTheLines) {
  const Tensor weight = torch::ones({1}, torch::requires_grad());
  LossLog log(1000, [](int64_t, double) {});
  const auto calls = tenfold::count_synchronising_calls([&] {
    for (int64_t i = 0; i < 100; ++i) log.add(loss_of(i, weight));
  });
  EXPECT_EQ(calls.all(), 0) << "hint: no line is complete yet, so no value is needed";
}

TEST(Exercise28, NoGraphIsKept) {
  LossLog log(1000, [](int64_t, double) {});
  const Tensor weight = torch::ones({3}, torch::requires_grad());
  const auto activation = [&] {  // of a loss that nobody calls backward() on
    const Tensor middle = weight * 2;
    log.add((middle * middle).sum());  // its graph holds `middle`
    log.add((middle * middle).sum());
    return c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(middle.getIntrusivePtr());
  }();
  EXPECT_TRUE(activation.expired())
      << "hint: a step's activations are still alive after it: the sum has a graph; add loss.detach()";
}

TEST(Exercise28, TheCallersLossesStayAsTheyAre) {
  LossLog log(3, [](int64_t, double) {});
  const Tensor first = torch::full({}, 2.0), second = torch::full({}, 5.0);
  log.add(first);
  log.add(second);
  log.add(second);
  EXPECT_TRUE(first.equal(torch::full({}, 2.0)) && second.equal(torch::full({}, 5.0)))
      << "hint: a loss was changed: `sum_ = loss` is the caller's tensor, and so is loss.detach(); begin with zeros";
}

TEST(Exercise28, ALossMayChangeAfterItsStep) {
  Lines lines;
  LossLog log(2, [&](int64_t step, double mean) { lines.emplace_back(step, mean); });
  const Tensor loss = torch::full({}, 2.0);
  log.add(loss);
  loss.fill_(4.0);  // a program that reuses one tensor for every step's loss
  log.add(loss);
  EXPECT_EQ(lines, (Lines{{2, 3.0}})) << "hint: the value at the time of add() counts: add it up at once";
}

}  // namespace
