// installs as <tenfold/layerwise_rates.h>
#pragma once
// A learning rate for each layer of a network that is fine-tuned, and layers that begin to train one after the other:
//
//   const Stages stages = stages_of(model->named_parameters(), {"conv1", "conv2", "head"});  // input to output
//   const torch::optim::AdamWOptions base(1e-3);                        // of the last stage
//   torch::optim::AdamW optimizer(layerwise_groups(stages, base, 0.75), base);
//   RateSchedule schedule(optimizer);          // remembers each group's rate
//   ...
//   schedule.scale(cosine(update));            // the rate of each group, times this
//   unfreeze_last(stages, 1 + update / 100);   // the head alone, then one stage more after each 100 updates
//
// Sources: J. Howard, S. Ruder, Universal Language Model Fine-tuning for Text Classification, 2018, arXiv:1801.06146
// (rates by layer, gradual unfreezing); H. Bao et al., BEiT, 2021, arXiv:2106.08254 (one decay for all layers).

#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenfold {

/// Parameters that train at one rate. A stage is one layer, or several that share a rate.
struct Stage {
  std::string prefix;
  std::vector<torch::Tensor> parameters;
};
using Stages = std::vector<Stage>;  ///< from the input to the output

/// Whether a parameter of this name belongs to a stage: "conv1" has "conv1" and "conv1.weight", not "conv10.weight".
inline bool belongs_to(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

/// A model's parameters by stage; `prefixes` from the input to the output. Each parameter is in exactly one stage:
/// throws c10::ValueError, and names it, for one that no prefix has, that two have, or that is another one's tensor;
/// and for a prefix without a parameter.
inline Stages stages_of(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                        const std::vector<std::string>& prefixes) {
  Stages stages;
  for (const std::string& prefix : prefixes) stages.push_back({prefix, {}});
  std::vector<std::pair<const void*, std::string>> seen;
  for (const auto& parameter : parameters) {
    Stage* found = nullptr;
    for (Stage& stage : stages) {
      if (!belongs_to(parameter.key(), stage.prefix)) continue;
      TORCH_CHECK_VALUE(found == nullptr, "stages_of: parameter ", parameter.key(), " belongs to both ", found->prefix,
                        " and ", stage.prefix);
      found = &stage;
    }
    TORCH_CHECK_VALUE(found != nullptr, "stages_of: parameter ", parameter.key(),
                      " belongs to no stage; it would never train");
    const void* tensor = parameter.value().unsafeGetTensorImpl();
    for (const auto& [other, name] : seen)
      TORCH_CHECK_VALUE(other != tensor, "stages_of: parameter ", parameter.key(), " is the tensor of ", name,
                        ", and would be updated twice");
    seen.emplace_back(tensor, parameter.key());
    found->parameters.push_back(parameter.value());
  }
  for (const Stage& stage : stages)
    TORCH_CHECK_VALUE(!stage.parameters.empty(), "stages_of: no parameter belongs to stage ", stage.prefix);
  return stages;
}

/// Of stage `stage` of `stages`: `rate` for the last one, `decay` times as much for each stage further from it.
inline double layer_rate(double rate, double decay, size_t stage, size_t stages) {
  return rate * std::pow(decay, static_cast<double>(stages - 1 - stage));
}

/// Groups for any of torch::optim's optimizers, one for each stage, in their order. `base` has the last stage's rate
/// and all else. Throws c10::ValueError for a decay that is not above 0 and at most 1: a rate of 0 is what freezing is
/// for.
inline std::vector<torch::optim::OptimizerParamGroup> layerwise_groups(const Stages& stages,
                                                                       const torch::optim::OptimizerOptions& base,
                                                                       double decay) {
  TORCH_CHECK_VALUE(decay > 0 && decay <= 1, "layerwise_groups: decay must be above 0 and at most 1, got ", decay);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (size_t i = 0; i < stages.size(); ++i) {
    auto options = base.clone();
    options->set_lr(layer_rate(base.get_lr(), decay, i, stages.size()));
    groups.emplace_back(stages[i].parameters, std::move(options));
  }
  return groups;
}

/// A schedule for an optimizer whose groups have rates of their own: a factor on each. A schedule that computes a rate
/// and writes it into every group makes them all alike again.
class RateSchedule {
 public:
  /// Remembers the rates as they are. The optimizer must live as long as this.
  explicit RateSchedule(torch::optim::Optimizer& optimizer) : optimizer_(&optimizer) {
    for (const auto& group : optimizer.param_groups()) rates_.push_back(group.options().get_lr());
  }

  /// From now on each group has its first rate times `factor`. Throws c10::Error if groups were added since.
  void scale(double factor) {
    auto& groups = optimizer_->param_groups();
    TORCH_CHECK(groups.size() == rates_.size(), "RateSchedule: the optimizer had ", rates_.size(), " groups, and has ",
                groups.size());
    for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates_[i] * factor);
  }

 private:
  torch::optim::Optimizer* optimizer_;
  std::vector<double> rates_;
};

/// A stage's parameters need no gradient any more, or need one again. What freezes loses the gradients that it has:
/// the optimizer passes over a parameter without one, but a gradient left at 0 would let its momentum move it on.
inline void set_trained(const Stage& stage, bool trained) {
  for (const torch::Tensor& parameter : stage.parameters) {
    parameter.requires_grad_(trained);
    if (!trained) parameter.mutable_grad().reset();
  }
}

/// The last `count` stages train and the others do not; all of them when there are no more. Call it between an update
/// and the next forward pass. Returns how many train.
inline int64_t unfreeze_last(const Stages& stages, int64_t count) {
  const auto all = static_cast<int64_t>(stages.size());
  const int64_t trained = count < 0 ? 0 : (count < all ? count : all);
  for (int64_t i = 0; i < all; ++i) set_trained(stages[static_cast<size_t>(i)], i >= all - trained);
  return trained;
}

/// Bytes of the parameters of the stages that train: their gradients have as many, and their momentum.
inline int64_t trained_bytes(const Stages& stages) {
  int64_t bytes = 0;
  for (const Stage& stage : stages)
    for (const torch::Tensor& parameter : stage.parameters)
      if (parameter.requires_grad()) bytes += static_cast<int64_t>(parameter.nbytes());
  return bytes;
}

}  // namespace tenfold
