#include <gtest/gtest.h>

#include EXERCISE

#include <tenfold/fashion_mnist.h>

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

  Tensor mean_loss(const Tensor& inputs, const Tensor& targets) { return torch::cross_entropy_loss(model_(inputs), targets); }

  Tensor joint_gradient() {
    model_->zero_grad();
    joint_loss_ = mean_loss(images_, labels_);
    joint_loss_.backward();
    return model_->weight.grad().clone();
  }

  Tensor accumulated_gradient(const std::vector<int64_t>& sizes) {
    std::vector<std::pair<Tensor, Tensor>> pieces;
    int64_t at = 0;
    for (const int64_t size : sizes) {
      pieces.emplace_back(images_.slice(0, at, at + size), labels_.slice(0, at, at + size));
      at += size;
    }
    model_->zero_grad();
    loss_ = accumulate_uneven(pieces, [this](const Tensor& inputs, const Tensor& targets) { return mean_loss(inputs, targets); });
    return model_->weight.grad().clone();
  }

  torch::nn::Linear model_{784, 10};
  Tensor images_, labels_, joint_loss_, loss_;
};

double difference(const Tensor& a, const Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

TEST_F(Exercise30, OnePieceIsTheJointBatch) {
  const Tensor joint = joint_gradient();
  EXPECT_LT(difference(accumulated_gradient({10}), joint), 1e-5) << "hint: with one piece nothing may change";
}

TEST_F(Exercise30, EqualPieces) {
  const Tensor joint = joint_gradient();
  EXPECT_LT(difference(accumulated_gradient({5, 5}), joint), 1e-5)
      << "hint: two means were added; the mean over both needs each of them weighted by one half";
}

TEST_F(Exercise30, UnequalPieces) {
  const Tensor joint = joint_gradient();
  EXPECT_LT(difference(accumulated_gradient({4, 4, 2}), joint), 1e-5)
      << "hint: the piece of 2 has as much say as a piece of 4; weight each piece by its number of samples";
}

TEST_F(Exercise30, TheLossIsTheMeanOverAllSamples) {
  joint_gradient();
  accumulated_gradient({4, 4, 2});
  EXPECT_NEAR(loss_.item<double>(), joint_loss_.item<double>(), 1e-5) << "hint: add up the weighted losses";
}

}  // namespace
