#include <gtest/gtest.h>

#include EXERCISE

#include "common/models/fashion_mnist.h"

namespace {

using torch::Tensor;

class Exercise30 : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(30);
    const auto set = tenfold::fashion_mnist(/*train=*/true);
    images_ = tenfold::normalise_images(set.images.slice(0, 0, 10)).flatten(1);  // (10, 784)
    labels_ = set.labels.slice(0, 0, 10);
  }

  Tensor mean_loss(const Tensor& inputs, const Tensor& targets) {
    return torch::cross_entropy_loss(model_(inputs), targets);
  }

  Tensor full_gradient() {
    model_->zero_grad();
    full_loss_ = mean_loss(images_, labels_);
    full_loss_.backward();
    return model_->weight.grad().clone();
  }

  Tensor accumulated_gradient(const std::vector<int64_t>& sizes) {
    std::vector<std::pair<Tensor, Tensor>> micro_batches;
    int64_t at = 0;
    for (const int64_t size : sizes) {
      micro_batches.emplace_back(images_.slice(0, at, at + size), labels_.slice(0, at, at + size));
      at += size;
    }
    model_->zero_grad();
    loss_ = accumulate_uneven(
        micro_batches, [this](const Tensor& inputs, const Tensor& targets) { return mean_loss(inputs, targets); });
    return model_->weight.grad().clone();
  }

  torch::nn::Linear model_{784, 10};
  Tensor images_, labels_, full_loss_, loss_;
};

double difference(const Tensor& a, const Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

TEST_F(Exercise30, OneMicroBatchIsTheFullBatch) {
  const Tensor full = full_gradient();
  EXPECT_LT(difference(accumulated_gradient({10}), full), 1e-5) << "hint: with one micro-batch nothing may change";
}

TEST_F(Exercise30, EqualMicroBatches) {
  const Tensor full = full_gradient();
  EXPECT_LT(difference(accumulated_gradient({5, 5}), full), 1e-5)
      << "hint: two means were added; the mean over both needs each of them weighted by one half";
}

TEST_F(Exercise30, UnequalMicroBatches) {
  const Tensor full = full_gradient();
  EXPECT_LT(difference(accumulated_gradient({4, 4, 2}), full), 1e-5)
      << "hint: the micro-batch of 2 has as much say as one of 4; weight each by its number of samples";
}

TEST_F(Exercise30, TheLossIsTheMeanOverAllSamples) {
  full_gradient();
  accumulated_gradient({4, 4, 2});
  EXPECT_NEAR(loss_.item<double>(), full_loss_.item<double>(), 1e-5) << "hint: add up the weighted losses";
}

}  // namespace
