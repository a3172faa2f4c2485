#pragma once
// Your answer to exercise 62. Build and check it with: ./tenfold exercise 62
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
    double rate, double /*decay*/) {
  // Hint: whose rate does each of these groups have? And where is a parameter whose name begins otherwise?
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const std::string& layer : layers) {
    std::vector<torch::Tensor> members;
    for (const auto& parameter : parameters)
      if (parameter.key().starts_with(layer)) members.push_back(parameter.value());
    groups.emplace_back(members, std::make_unique<torch::optim::SGDOptions>(rate));
  }
  return groups;
}

/// A factor on the rate of each group.
class Schedule {
 public:
  explicit Schedule(torch::optim::Optimizer& optimizer)
      : optimizer_(optimizer), rate_(optimizer.param_groups().back().options().get_lr()) {}

  /// Each group has from now on the rate that it began with, times `factor`.
  void scale(double factor) {
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(rate_ * factor);
  }

 private:
  torch::optim::Optimizer& optimizer_;
  double rate_;
};
