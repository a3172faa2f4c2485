#include <gtest/gtest.h>

#include EXERCISE

#include <cmath>
#include <string>
#include <vector>

#include "common/measure/memory.h"

namespace {

using torch::Tensor;

constexpr int64_t kRows = 4096, kWidth = 64;
constexpr double kTensor = 4 * kRows * kWidth;  // bytes

/// The seven operators, each with a result of its own.
Tensor reference(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3) {
  const Tensor value = torch::leaky_relu(torch::mm(x, w1), 0.1);
  return x + torch::mm(value * torch::sigmoid(torch::mm(x, w2)), w3);
}

class Exercise23 : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(23);
    // What a layer in front of this one gives: no leaf, and the gradient must pass through it.
    input_ = torch::randn({kRows, kWidth}).requires_grad_();
    for (int i = 0; i < 3; ++i) weights_.push_back((torch::randn({kWidth, kWidth}) / 8).requires_grad_());
    direction_ = torch::randn({kRows, kWidth});
  }

  template <class Layer>
  Tensor run(const Layer& layer, const Tensor& x) {
    return layer(x, weights_[0], weights_[1], weights_[2]);
  }

  /// Of the input and the weights; empty when backward() raises, with the message in `raised_`.
  template <class Layer>
  std::vector<Tensor> gradients(const Layer& layer) {
    try {
      const Tensor y = run(layer, input_ * 1.5);
      return torch::autograd::grad({(y * direction_).sum()}, {input_, weights_[0], weights_[1], weights_[2]});
    } catch (const c10::Error& error) {
      raised_ = error.what_without_backtrace();
      return {};
    }
  }

  Tensor input_, direction_;
  std::vector<Tensor> weights_;
  std::string raised_;
};

TEST_F(Exercise23, LeavesItsInputAsItWas) {
  const Tensor x = input_.detach().clone();
  run(gated_residual, x);
  EXPECT_TRUE(torch::equal(x, input_.detach())) << "hint: x belongs to the caller; add x to the branch instead";
}

TEST_F(Exercise23, BackwardFindsWhatItNeeds) {
  gradients(gated_residual);
  EXPECT_EQ(raised_, "")
      << "hint: an operator needs its result in backward(), and a later one overwrote it. The message"
         " names the first and counts the changes: 'is at version 2; expected version 1'";
}

TEST_F(Exercise23, GradientsAreTheSame) {
  const std::vector<Tensor> expected = gradients(reference), got = gradients(gated_residual);
  ASSERT_EQ(got.size(), expected.size()) << "hint: backward() raised; see BackwardFindsWhatItNeeds";
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-5, 1e-6))
        << "hint: the gradient of " << (i == 0 ? "x" : "W" + std::to_string(i))
        << " is another one. Was a value changed behind autograd's back, through data() or under no_grad?";
  }
}

TEST_F(Exercise23, KeepsFourTensors) {
  const tenfold::CountCpuMemory counting;
  const Tensor x = input_ * 1.5;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  const Tensor y = run(gated_residual, x);
  const double alive = static_cast<double>(tenfold::live_bytes(torch::kCPU) - before) / kTensor;
  EXPECT_TRUE(y.requires_grad()) << "hint: without a graph nothing is kept, and nothing is trained";
  EXPECT_LT(alive, 4.1) << "hint: autograd keeps " << std::lround(alive)
                        << " tensors with the result, and four are enough:"
                        << " one operator keeps its input only if it is not in place";
}

TEST_F(Exercise23, NeverHasMoreThanFour) {
  const tenfold::CountCpuMemory counting;
  const Tensor x = input_ * 1.5;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  tenfold::reset_peak(torch::kCPU);
  const Tensor y = run(gated_residual, x);
  const double most = static_cast<double>(tenfold::peak_bytes(torch::kCPU) - before) / kTensor;
  EXPECT_LT(most, 4.1) << "hint: " << std::lround(most)
                       << " tensors are alive at a time; the sum at the end needs no tensor of its own";
}

}  // namespace
