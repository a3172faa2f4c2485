#include <gtest/gtest.h>

#include EXERCISE

#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>

#include "common/measure/memory.h"

namespace {

/// Counts the calls, and throws as a device without memory would.
struct Step {
  std::function<int64_t(int64_t)> bytes;
  int64_t budget;
  int calls = 0;

  int64_t peak_of(int64_t batch) {
    ++calls;
    if (calls > 8) throw std::runtime_error("called more than eight times");
    if (batch < 1) throw std::runtime_error("a batch of " + std::to_string(batch));
    const int64_t peak = bytes(batch);
    if (peak > budget) throw std::runtime_error("out of memory with a batch of " + std::to_string(batch));
    return peak;
  }
  int64_t largest() {
    return largest_batch([this](int64_t batch) { return peak_of(batch); }, budget);
  }
};

TEST(Exercise03, ALineGivesTheBatch) {
  Step step{[](int64_t batch) { return 10'000 + 130 * batch; }, 100'000};
  int64_t found = 0;
  ASSERT_NO_THROW(found = step.largest()) << "hint: go no further than batch * budget / peak";
  EXPECT_EQ(found, 692) << "hint: 10000 + 130 * 692 = 99960";
}

TEST(Exercise03, TheFlatPartIsNotTheLine) {
  // The end of the step needs 30,000 bytes, whatever the batch.
  Step step{[](int64_t batch) { return std::max<int64_t>(30'000, 10'000 + 100 * batch); }, 100'000};
  int64_t found = 0;
  ASSERT_NO_THROW(found = step.largest())
      << "hint: batches 1 and 2 have the same peak: it is the update's, where no activation is left";
  EXPECT_EQ(found, 900) << "hint: take the line from two batches that are large enough for activations to decide";
}

TEST(Exercise03, OneSampleMayBeAll) {
  Step step{[](int64_t batch) { return 600 + 300 * batch; }, 1'000};
  int64_t found = 0;
  ASSERT_NO_THROW(found = step.largest()) << "hint: do not try a batch that you have not shown to fit";
  EXPECT_EQ(found, 1);
}

/// Peak of a step of a two-layer perceptron with AdamW, above what is there before.
int64_t real_peak(int64_t batch) {
  torch::manual_seed(3);
  const tenfold::CountCpuMemory counting;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 64));
  torch::optim::AdamW optimizer(model->parameters());
  int64_t peak = 0;
  for (int step = 0; step < 2; ++step) {
    tenfold::reset_peak(torch::kCPU);
    optimizer.zero_grad();
    model->forward(torch::ones({batch, 64})).square().mean().backward();
    optimizer.step();
    peak = tenfold::peak_bytes(torch::kCPU) - before;
  }
  return peak;
}

TEST(Exercise03, ARealStepFillsItsBudget) {
  constexpr int64_t kBudget = 8 << 20;
  Step step{real_peak, kBudget};
  int64_t found = 0;
  ASSERT_NO_THROW(found = step.largest()) << "hint: go no further than batch * budget / peak";
  EXPECT_LE(real_peak(found - found / 100), kBudget);
  EXPECT_GT(real_peak(found + found / 100 + 1), kBudget) << "hint: a larger batch fits, too";
}

}  // namespace
