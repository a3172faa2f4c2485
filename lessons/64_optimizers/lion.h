// installs as <tenfold/lion.h>
#pragma once
// Lion for LibTorch: the sign of a momentum, so that every parameter moves by the learning rate, up or down.
//
//   Lion optimizer(model->parameters(), LionOptions(3e-4).weight_decay(0.1));
//
// Rates are three to ten times smaller than AdamW's, weight decay as much larger. Source: X. Chen et al., Symbolic
// Discovery of Optimization Algorithms, 2023 (arXiv:2302.06675), program 1.

#include <torch/torch.h>

#include <tuple>
#include <utility>
#include <vector>

#include "parameter_wise.h"

namespace tenfold {

struct LionOptions : torch::optim::OptimizerCloneableOptions<LionOptions> {
  using Betas = std::tuple<double, double>;

  LionOptions(double lr = 1e-4) : lr_(lr) {}  // NOLINT(google-explicit-constructor): as LibTorch's
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = { 0.9, 0.99 };  ///< of the update, and of what is kept
  TORCH_ARG(double, weight_decay) = 0;      ///< taken from the parameter itself

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  }
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

/// Four bytes for each parameter of 32 bits.
struct LionParamState : torch::optim::OptimizerCloneableParamState<LionParamState> {
  TORCH_ARG(torch::Tensor, exp_avg);

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override { _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg); }
};

class Lion : public ParameterWise<Lion, LionOptions, LionParamState> {
 public:
  /// Throws c10::ValueError for a negative rate or weight decay, and for betas that are not in [0, 1).
  explicit Lion(const Groups& groups, const LionOptions& defaults = {}) : ParameterWise(groups, defaults) {
    for (auto& group : param_groups_) {
      const auto& options = options_of(group);
      const auto [beta1, beta2] = options.betas();
      TORCH_CHECK_VALUE(options.lr() >= 0 && options.weight_decay() >= 0,
                        "Lion: rate and weight decay must be 0 or more, got ", options.lr(), " and ",
                        options.weight_decay());
      TORCH_CHECK_VALUE(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "Lion: betas must be in [0, 1), got ",
                        beta1, " and ", beta2);
    }
  }
  explicit Lion(std::vector<torch::Tensor> parameters, const LionOptions& defaults = {})
      : Lion(one_group(std::move(parameters)), defaults) {}

 private:
  friend ParameterWise;

  void update(torch::Tensor& parameter, const LionOptions& options) {
    const auto [beta1, beta2] = options.betas();
    const torch::Tensor& gradient = parameter.grad();
    torch::Tensor average =
        state_of(parameter, [&](LionParamState& first) { first.exp_avg(torch::zeros_like(gradient)); }).exp_avg();
    parameter.mul_(1 - options.lr() * options.weight_decay());
    // The newest gradient has more weight in the update than in what is kept: that is Lion's look ahead.
    parameter.add_(average.lerp(gradient, 1 - beta1).sign_(), -options.lr());
    average.lerp_(gradient, 1 - beta2);
  }
};

}  // namespace tenfold
