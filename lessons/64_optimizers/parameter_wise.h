// installs as <tenfold/parameter_wise.h>
#pragma once
// What an optimizer for LibTorch is apart from its arithmetic, where the update of a parameter knows of no other: the
// step over all groups, the state of each parameter, and saving and loading. Lion, Muon and schedule-free AdamW have
// it; one of your own is
//
//   class MyOptimizer : public ParameterWise<MyOptimizer, MyOptions, MyParamState> {
//    public:
//     explicit MyOptimizer(const Groups& groups, const MyOptions& defaults = {}) : ParameterWise(groups, defaults) {}
//    private:
//     friend ParameterWise;
//     void update(torch::Tensor& parameter, const MyOptions& options);  // parameter.grad() is defined
//   };

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

namespace tenfold {

/// `Options` and `State` are made as LibTorch's own are, from OptimizerCloneableOptions and
/// OptimizerCloneableParamState. `Derived` has void update(torch::Tensor& parameter, const Options& options).
template <class Derived, class Options, class State>
class ParameterWise : public torch::optim::Optimizer {
 public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

  /// One update, without gradients recorded. Parameters without a gradient stay as they are. Returns the closure's
  /// loss, or an undefined tensor.
  torch::Tensor step(LossClosure closure = nullptr) override {
    torch::Tensor loss;
    if (closure != nullptr) {
      const torch::AutoGradMode with_gradients(true);
      loss = closure();
    }
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups_) {
      for (torch::Tensor& parameter : group.params()) {
        if (parameter.grad().defined()) static_cast<Derived&>(*this).update(parameter, options_of(group));
      }
    }
    return loss;
  }

  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<State, Options>(archive, *this);
  }

 protected:
  ParameterWise(const Groups& groups, const Options& defaults)
      : Optimizer(groups, std::make_unique<Options>(defaults)) {}

  static Groups one_group(std::vector<torch::Tensor> parameters) {
    return {torch::optim::OptimizerParamGroup(std::move(parameters))};
  }

  static Options& options_of(torch::optim::OptimizerParamGroup& group) {
    return static_cast<Options&>(group.options());
  }

  /// Null before the parameter's first update.
  State* find_state(const torch::Tensor& parameter) {
    const auto held = state_.find(parameter.unsafeGetTensorImpl());
    return held == state_.end() ? nullptr : static_cast<State*>(held->second.get());
  }

  /// As `make` has filled it before the parameter's first update.
  template <class Make>
  State& state_of(const torch::Tensor& parameter, const Make& make) {
    auto& held = state_[parameter.unsafeGetTensorImpl()];
    if (held == nullptr) {
      auto first = std::make_unique<State>();
      make(*first);
      held = std::move(first);
    }
    return static_cast<State&>(*held);
  }
};

}  // namespace tenfold
