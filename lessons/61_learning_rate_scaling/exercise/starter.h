#pragma once
// Your answer to exercise 60. Build and check it with: ./tenfold exercise 61
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
    // Hint: count the checks since the best one. And what does a copy of a torch::Tensor copy?
    if (loss < best_loss_) {
      best_loss_ = loss;
      best_ = weights_;
    }
    return false;
  }

  /// Puts the weights of the best check back into the tensors that training changes.
  void restore() { weights_ = best_; }

 private:
  std::vector<torch::Tensor> weights_, best_;
  [[maybe_unused]] int64_t patience_;
  [[maybe_unused]] double minimum_;
  double best_loss_ = std::numeric_limits<double>::infinity();
};
