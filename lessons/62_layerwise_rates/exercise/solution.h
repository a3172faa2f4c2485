#pragma once
// The kept solution of exercise 62; CI proves that it passes.
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/// A group for each layer, `layers` from the input to the output: the last has `rate`, each before it `decay` times the
/// rate of the next. Throws std::invalid_argument, with its name, for a parameter that belongs to no layer.
inline std::vector<torch::optim::OptimizerParamGroup> layer_groups(
    const torch::OrderedDict<std::string, torch::Tensor>& parameters, const std::vector<std::string>& layers,
    double rate, double decay) {
  std::vector<std::vector<torch::Tensor>> members(layers.size());
  for (const auto& parameter : parameters) {
    bool found = false;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (!parameter.key().starts_with(layers[i] + ".")) continue;
      members[i].push_back(parameter.value());
      found = true;
    }
    if (!found) throw std::invalid_argument(parameter.key() + " belongs to no layer");
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto below = static_cast<double>(layers.size() - 1 - i);
    const double own = rate * std::pow(decay, below);
    groups.emplace_back(members[i], std::make_unique<torch::optim::SGDOptions>(own));
  }
  return groups;
}

/// A factor on the rate of each group.
class Schedule {
 public:
  explicit Schedule(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
    for (const auto& group : optimizer.param_groups()) rates_.push_back(group.options().get_lr());
  }

  /// Each group has from now on the rate that it began with, times `factor`.
  void scale(double factor) {
    size_t i = 0;
    for (auto& group : optimizer_.param_groups()) {
      const double first = rates_[i++];
      group.options().set_lr(first * factor);
    }
  }

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<double> rates_;
};
