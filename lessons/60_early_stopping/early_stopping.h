// installs as <tenfold/early_stopping.h>
#pragma once
// Stops a training whose validation loss has stopped falling, and gives back the weights that were best:
//
//   EarlyStopping stopping(training_state(*model), {.patience = 5});
//   for (int64_t update = 1; update <= updates; ++update) {
//     train();
//     if (update % every == 0 && stopping.should_stop(validation_loss())) break;
//   }
//   stopping.restore_best();

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tenfold {

struct EarlyStoppingOptions {
  int64_t patience = 5;            ///< checks in a row without an improvement after which training stops
  double minimum_improvement = 0;  ///< a loss must be lower than the best one by more than this
  bool keep_best = true;           ///< a copy of the best weights, for restore_best()
};

/// What a model's answers depend on: its parameters, and buffers such as the statistics of batch normalisation.
inline std::vector<torch::Tensor> training_state(const torch::nn::Module& model) {
  std::vector<torch::Tensor> state = model.parameters();
  const std::vector<torch::Tensor> buffers = model.buffers();
  state.insert(state.end(), buffers.begin(), buffers.end());
  return state;
}

/// Patience on a validation loss. On several ranks every rank must give the same loss, averaged over all of them: a
/// rank that stops alone leaves the others waiting for it.
class EarlyStopping {
 public:
  /// `state` are the tensors that training changes in place; restore_best() writes to them. Throws c10::ValueError for
  /// a patience below 1, or a minimum improvement that is negative or not finite.
  explicit EarlyStopping(std::vector<torch::Tensor> state, EarlyStoppingOptions options = {})
      : state_(std::move(state)), options_(options) {
    TORCH_CHECK_VALUE(options_.patience >= 1, "EarlyStopping: patience must be at least 1 check, got ",
                      options_.patience);
    TORCH_CHECK_VALUE(std::isfinite(options_.minimum_improvement) && options_.minimum_improvement >= 0,
                      "EarlyStopping: minimum_improvement must be 0 or more, got ", options_.minimum_improvement);
  }

  /// Takes the validation loss of the weights as they are now. True when training should stop. NaN and infinity are no
  /// improvement, so a training that diverges ends after `patience` checks as well.
  bool should_stop(double validation_loss) {
    ++checks_;
    if (std::isfinite(validation_loss) && (!found() || validation_loss < best_loss_ - options_.minimum_improvement)) {
      best_loss_ = validation_loss;
      best_check_ = checks_;
      if (options_.keep_best) keep();
    }
    return checks_ - best_check_ >= options_.patience;
  }

  /// Puts the best weights back in place. Optimizer state stays as it is: it belongs to the last update. Throws
  /// c10::Error when no copy is kept, or when no loss was finite.
  void restore_best() {
    TORCH_CHECK(options_.keep_best, "EarlyStopping: restore_best() needs keep_best");
    TORCH_CHECK(found(), "EarlyStopping: restore_best() before any check had a finite loss");
    copy(best_, state_);
  }

  double best_loss() const { return best_loss_; }     ///< infinite until a loss was finite
  int64_t best_check() const { return best_check_; }  ///< from 1; 0 until a loss was finite
  int64_t checks() const { return checks_; }
  /// Of the copy, on the state's device: as much as the state, from the first check with a finite loss on.
  int64_t best_bytes() const {
    int64_t bytes = 0;
    for (const torch::Tensor& tensor : best_) bytes += static_cast<int64_t>(tensor.nbytes());
    return bytes;
  }

 private:
  bool found() const { return best_check_ > 0; }

  /// Into the same memory each time. A copy: a tensor kept as it is would go on changing with the training.
  void keep() {
    const torch::NoGradGuard no_gradients;
    if (best_.empty()) {
      for (const torch::Tensor& tensor : state_) best_.push_back(torch::empty_like(tensor));
    }
    copy(state_, best_);
  }

  static void copy(const std::vector<torch::Tensor>& from, std::vector<torch::Tensor>& to) {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }

  std::vector<torch::Tensor> state_, best_;
  EarlyStoppingOptions options_;
  double best_loss_ = std::numeric_limits<double>::infinity();
  int64_t checks_ = 0, best_check_ = 0;
};

}  // namespace tenfold
