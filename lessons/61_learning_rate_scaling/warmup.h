// installs as <tenfold/warmup.h>
#pragma once
// A learning rate for a larger batch, and the way there:
//
//   optimizer with the rate of the small batch;
//   WarmUp warm_up(optimizer, {.factor = rate_factor(RateRule::linear, batch / small_batch), .warm_up = 500});
//   for (...) { optimizer.zero_grad(); loss.backward(); optimizer.step(); warm_up.step(); }
//
// Source: P. Goyal et al., Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour, 2017, arXiv:1706.02677: the
// linear rule, and a warm-up by a constant amount in every update. The square root: A. Krizhevsky, arXiv:1404.5997; for
// Adam, S. Malladi et al., arXiv:2205.10287.
//
// Momentum correction. Where momentum collects learning_rate * gradient, v = m v + lr g and w -= v, a rate that changes
// must scale v along. torch::optim::SGD collects gradients, v = m v + g and w -= lr v: the new rate counts for all of
// v, and nothing is to be corrected.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tenfold {

enum class RateRule { none, square_root, linear };

/// By how much the learning rate grows with a batch of `times` as many samples. Throws c10::ValueError unless `times`
/// is above 0.
inline double rate_factor(RateRule rule, double times) {
  TORCH_CHECK_VALUE(times > 0, "rate_factor: the batch must grow by a factor above 0, got ", times);
  if (rule == RateRule::none) return 1;
  return rule == RateRule::linear ? times : std::sqrt(times);
}

struct WarmUpOptions {
  double factor = 1;    ///< the rate after the warm-up, over the optimizer's at the beginning
  int64_t warm_up = 0;  ///< updates until then
  int64_t updates = 0;  ///< of the whole training, after which the rate has fallen to 0; 0: it stays
};

/// Sets every parameter group's rate: the optimizer's own in the first update, `factor` times that after the warm-up,
/// on a straight line between; then, where the training's length is given, on a straight line to 0. The optimizer must
/// outlive it.
class WarmUp {
 public:
  /// Throws c10::ValueError for a factor that is not above 0, a negative number of updates, and a warm-up that is not
  /// shorter than the training.
  WarmUp(torch::optim::Optimizer& optimizer, const WarmUpOptions& options) : optimizer_(&optimizer), options_(options) {
    TORCH_CHECK_VALUE(options.factor > 0, "WarmUp: factor must be above 0, got ", options.factor);
    TORCH_CHECK_VALUE(options.warm_up >= 0 && options.updates >= 0, "WarmUp: updates must be 0 or more");
    TORCH_CHECK_VALUE(options.updates == 0 || options.warm_up < options.updates, "WarmUp: a warm-up of ",
                      options.warm_up, " updates ends after a training of ", options.updates);
    for (const auto& group : optimizer.param_groups()) first_rates_.push_back(group.options().get_lr());
    resume(0);
  }

  /// After each optimizer.step(): once per update, not per micro-batch and not per epoch.
  void step() { resume(done_ + 1); }

  /// Sets the rates of a training that has made so many updates. Checkpoint updates_done(), and make the object with
  /// the rates of the small batch, not with those in the optimizer's checkpoint.
  void resume(int64_t updates_done) {
    done_ = updates_done;
    for (size_t i = 0; i < first_rates_.size(); ++i)
      optimizer_->param_groups().at(i).options().set_lr(first_rates_[i] * factor_now());
  }

  int64_t updates_done() const { return done_; }

  /// Of the next update, over the rates at the beginning.
  double factor_now() const {
    const auto done = static_cast<double>(done_), warm_up = static_cast<double>(options_.warm_up);
    if (done_ < options_.warm_up) return 1 + (options_.factor - 1) * done / warm_up;
    if (options_.updates == 0) return options_.factor;
    const auto updates = static_cast<double>(options_.updates);
    return options_.factor * std::max(0.0, (updates - done) / (updates - warm_up));
  }

 private:
  torch::optim::Optimizer* optimizer_;
  WarmUpOptions options_;
  int64_t done_ = 0;
  std::vector<double> first_rates_;
};

}  // namespace tenfold
