// installs as <tenfold/schedule_free.h>
#pragma once
// Schedule-free AdamW for LibTorch: a mean of the weights does what a decaying learning rate does, and nobody has to
// say beforehand when training ends.
//
//   ScheduleFreeAdamW optimizer(model->parameters(), ScheduleFreeAdamWOptions(3e-3).warmup_steps(20));
//   for (...) { loss.backward(); optimizer.step(); }
//   optimizer.eval();    // the parameters become the mean: what is evaluated and saved
//   evaluate(model);
//   optimizer.train();   // and back, before the next step
//
// Source: A. Defazio et al., The Road Less Scheduled, 2024 (arXiv:2405.15682), algorithm 1, with Adam's correction of
// the average of squares, as in the authors' code, where the paper has the same factor at the rate.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "parameter_wise.h"

namespace tenfold {

struct ScheduleFreeAdamWOptions : torch::optim::OptimizerCloneableOptions<ScheduleFreeAdamWOptions> {
  using Betas = std::tuple<double, double>;

  ScheduleFreeAdamWOptions(double lr = 2.5e-3) : lr_(lr) {}  // NOLINT(google-explicit-constructor): as LibTorch's
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = { 0.9, 0.999 };  ///< share of the mean where gradients are taken; of the squares' average
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(int64_t, warmup_steps) = 0;  ///< in which the rate rises
  /// A part of the state: which weights the parameters hold.
  TORCH_ARG(bool, training) = true;

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, warmup_steps);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, training);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(warmup_steps);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(training);
  }
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

/// Eight bytes for each parameter of 32 bits.
struct ScheduleFreeAdamWParamState : torch::optim::OptimizerCloneableParamState<ScheduleFreeAdamWParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(double, weights) = 0;        ///< of all steps in the mean, together
  TORCH_ARG(torch::Tensor, z);           ///< what the steps are taken from
  TORCH_ARG(torch::Tensor, exp_avg_sq);  ///< of the gradients' squares

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, step);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weights);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, z);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg_sq);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weights);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(z);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg_sq);
  }
};

/// The parameters hold y = (1 - beta1) z + beta1 x while training, where gradients are taken, and the mean x in eval().
class ScheduleFreeAdamW
    : public ParameterWise<ScheduleFreeAdamW, ScheduleFreeAdamWOptions, ScheduleFreeAdamWParamState> {
 public:
  /// Throws c10::ValueError for a negative rate, epsilon, weight decay or warm-up, and unless 0 < beta1 < 1 and
  /// 0 <= beta2 < 1.
  explicit ScheduleFreeAdamW(const Groups& groups, const ScheduleFreeAdamWOptions& defaults = {})
      : ParameterWise(groups, defaults) {
    for (auto& group : param_groups_) {
      const auto& options = options_of(group);
      const auto [beta1, beta2] = options.betas();
      TORCH_CHECK_VALUE(
          options.lr() >= 0 && options.eps() >= 0 && options.weight_decay() >= 0 && options.warmup_steps() >= 0,
          "ScheduleFreeAdamW: rate, epsilon, weight decay and warm-up must be 0 or more");
      TORCH_CHECK_VALUE(beta1 > 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1,
                        "ScheduleFreeAdamW: betas must be in (0, 1) and [0, 1), got ", beta1, " and ", beta2);
    }
  }
  explicit ScheduleFreeAdamW(std::vector<torch::Tensor> parameters, const ScheduleFreeAdamWOptions& defaults = {})
      : ScheduleFreeAdamW(one_group(std::move(parameters)), defaults) {}

  /// Parameters without a gradient stay as they are. Throws c10::Error between eval() and train().
  torch::Tensor step(LossClosure closure = nullptr) override {
    for (auto& group : param_groups_)
      TORCH_CHECK(options_of(group).training(), "ScheduleFreeAdamW: step() after eval(); call train() first");
    return ParameterWise::step(std::move(closure));
  }

  /// The parameters become the mean x. Does nothing when they are.
  void eval() {
    move(false, [](double beta1) { return 1 - 1 / beta1; });
  }
  /// And y again, rounded once more.
  void train() {
    move(true, [](double beta1) { return 1 - beta1; });
  }

 private:
  friend ParameterWise;

  void update(torch::Tensor& parameter, const ScheduleFreeAdamWOptions& options) {
    const auto [beta1, beta2] = options.betas();
    const torch::Tensor& gradient = parameter.grad();
    auto& state = state_of(parameter, [&](ScheduleFreeAdamWParamState& first) {
      first.z(parameter.detach().clone()).exp_avg_sq(torch::zeros_like(gradient));
    });
    state.step(state.step() + 1);
    const auto step = static_cast<double>(state.step());
    const double rate =
        options.lr() * std::min(1.0, step / static_cast<double>(std::max<int64_t>(1, options.warmup_steps())));
    state.weights(state.weights() + rate * rate);  // a step's weight is its rate's square
    const double newest = state.weights() > 0 ? rate * rate / state.weights() : 0;

    state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    const torch::Tensor denominator =
        state.exp_avg_sq().sqrt().div_(std::sqrt(1 - std::pow(beta2, step))).add_(options.eps());
    torch::Tensor direction = gradient / denominator;
    if (options.weight_decay() > 0) direction.add_(parameter, options.weight_decay());
    // The new x is (1 - newest) x + newest z', with z' = z - rate direction. That gives the new y from y and the old z,
    // and x itself need not be kept.
    parameter.lerp_(state.z(), newest).add_(direction, rate * (beta1 * (1 - newest) - 1));
    state.z().add_(direction, -rate);
  }

  /// Along the line through y and z, by a part of the way that follows from beta1.
  void move(bool to_training, double (*part)(double beta1)) {
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups_) {
      auto& options = options_of(group);
      if (options.training() == to_training) continue;
      options.training(to_training);
      for (torch::Tensor& parameter : group.params()) {
        if (const auto* const state = find_state(parameter))
          parameter.lerp_(state->z(), part(std::get<0>(options.betas())));
      }
    }
  }
};

}  // namespace tenfold
