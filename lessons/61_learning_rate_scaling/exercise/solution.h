#pragma once
// The kept solution of exercise 61; CI proves that it passes.
#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

class BestWeights {
 public:
  /// `weights` are the tensors that training changes in place.
  BestWeights(std::vector<torch::Tensor> weights, int64_t patience, double minimum)
      : weights_(std::move(weights)), patience_(patience), minimum_(minimum) {}

  /// Takes the validation loss of the weights as they are. True after `patience` checks in a row whose loss was not
  /// lower than the best one by more than `minimum`. NaN is no improvement.
  bool should_stop(double loss) {
    ++waited_;
    if (loss < best_loss_ - minimum_) {  // false for NaN
      best_loss_ = loss;
      waited_ = 0;
      best_.clear();
      for (const torch::Tensor& weight : weights_) best_.push_back(weight.detach().clone());
    }
    return waited_ >= patience_;
  }

  /// Puts the weights of the best check back into the tensors that training changes.
  void restore() {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < best_.size(); ++i) weights_[i].copy_(best_[i]);
  }

 private:
  std::vector<torch::Tensor> weights_, best_;
  int64_t patience_, waited_ = 0;
  double minimum_;
  double best_loss_ = std::numeric_limits<double>::infinity();
};
