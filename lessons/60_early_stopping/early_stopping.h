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

/// Everything that a resumed training needs. `best` is empty without keep_best, and until a loss was finite; else it
/// has the best weights, in the order of the tensors that EarlyStopping was given.
struct EarlyStoppingState {
  double best_loss = std::numeric_limits<double>::infinity();
  int64_t checks = 0, best_check = 0;
  std::vector<torch::Tensor> best;
  /// What decides when training stops: checked when a training goes on.
  int64_t patience = 0;
  double minimum_improvement = 0;
};

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

  /// A copy, between two checks: it does not go on with the training.
  EarlyStoppingState state() const {
    EarlyStoppingState saved{.best_loss = best_loss_,
                             .checks = checks_,
                             .best_check = best_check_,
                             .best = {},
                             .patience = options_.patience,
                             .minimum_improvement = options_.minimum_improvement};
    const torch::NoGradGuard no_gradients;
    for (const torch::Tensor& tensor : best_) saved.best.push_back(tensor.detach().clone());
    return saved;
  }

  /// Continues from a saved state, which may be on another device. Throws c10::ValueError, and changes nothing, for a
  /// state of another patience or minimum improvement, of other tensors, and for numbers that no training has.
  void load(const EarlyStoppingState& saved) {
    TORCH_CHECK_VALUE(saved.patience == options_.patience && saved.minimum_improvement == options_.minimum_improvement,
                      "EarlyStopping: the saved state has patience ", saved.patience, " and minimum improvement ",
                      saved.minimum_improvement, ", this one ", options_.patience, " and ",
                      options_.minimum_improvement, ": training would stop at another check");
    const bool was_found = saved.best_check > 0;
    TORCH_CHECK_VALUE(saved.best_check >= 0 && saved.best_check <= saved.checks &&
                          was_found == std::isfinite(saved.best_loss) && !std::isnan(saved.best_loss),
                      "EarlyStopping: a saved state of ", saved.checks, " checks, of which number ", saved.best_check,
                      " was best with a loss of ", saved.best_loss, ", does not exist");
    const size_t expected = options_.keep_best && was_found ? state_.size() : 0;
    TORCH_CHECK_VALUE(saved.best.size() == expected, "EarlyStopping: the saved state has a copy of ", saved.best.size(),
                      " tensors; expected ", expected, options_.keep_best ? "" : ", because keep_best is off");
    for (size_t i = 0; i < expected; ++i) {
      TORCH_CHECK_VALUE(saved.best[i].defined() && saved.best[i].sizes() == state_[i].sizes() &&
                            saved.best[i].scalar_type() == state_[i].scalar_type(),
                        "EarlyStopping: tensor ", i, " of the saved state is not ", state_[i].scalar_type(),
                        " of shape ", state_[i].sizes());
    }
    if (expected == 0) {
      best_.clear();
    } else {
      make_best();
      copy(saved.best, best_);
    }
    best_loss_ = saved.best_loss;
    checks_ = saved.checks;
    best_check_ = saved.best_check;
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
    make_best();
    copy(state_, best_);
  }

  void make_best() {
    const torch::NoGradGuard no_gradients;
    if (best_.empty()) {
      for (const torch::Tensor& tensor : state_) best_.push_back(torch::empty_like(tensor));
    }
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
