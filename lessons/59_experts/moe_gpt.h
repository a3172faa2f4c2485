#pragma once
// What lesson 59 trains: the GPT with a mixture of experts in the place of each block's MLP, whole or a rank's part.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/dry.h"
#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/gpt_batches.h"
#include "lessons/54_model_parallel/tensor_group.h"
#include "mixture_of_experts.h"
#include "settings.h"

namespace tenfold::inline lesson_59 {

struct MixtureOptions {
  int64_t experts = 8, active = 2;
  TensorGroup group = TensorGroup();  ///< the ranks that share the experts
};

struct MixtureImpl;
/// A way to compute a mixture: tokens (n, D), chosen experts, to (n, D).
using Experts = std::function<torch::Tensor(const torch::Tensor& x, const Routing& routing, const MixtureImpl& of)>;

/// Router and experts. Every rank draws all experts alike and keeps its part.
struct MixtureImpl : torch::nn::Module {
  MixtureImpl(const GptOptions& gpt, const MixtureOptions& chosen, Experts experts)
      : options(chosen), compute(std::move(experts)) {
    const int64_t ranks = options.group.ranks(), width = gpt.width;
    TORCH_CHECK_VALUE(options.experts % ranks == 0, ranks, " ranks do not divide experts=", options.experts);
    const int64_t own = options.experts / ranks;
    const auto draw = [](at::IntArrayRef sizes, double deviation) { return torch::empty(sizes).normal_(0, deviation); };
    const auto part = [&](const torch::Tensor& all) { return all.narrow(0, options.group.rank() * own, own).clone(); };
    router = register_parameter("router", draw({options.experts, width}, 0.02));
    up = register_parameter("up", part(draw({options.experts, width, 4 * width}, 0.02)));
    const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(gpt.layers));
    down = register_parameter("down", part(draw({options.experts, 4 * width, width}, residual)));
  }

  torch::Tensor forward(const torch::Tensor& x) {  // (..., D) -> (..., D)
    const torch::Tensor tokens = x.flatten(0, -2);
    const Routing routing = route(tokens, router, options.active, bias);
    if (observe) observe(routing);
    RECORD_USER_SCOPE("experts.forward");
    return compute(tokens, routing, *this).view_as(x);
  }

  MixtureOptions options;
  Experts compute;
  std::function<void(const Routing&)> observe;
  torch::Tensor router;    // (E, D)
  torch::Tensor up, down;  // (E / ranks, D, 4 D), (E / ranks, 4 D, D)
  torch::Tensor bias;      // (E), or none
};
TORCH_MODULE(Mixture);

/// A GPT whose blocks have a mixture instead of their MLP, and its mixtures.
struct MoeGpt {
  MoeGpt(const GptOptions& options, const MixtureOptions& chosen, const Experts& compute) {
    const auto of_block = std::make_shared<std::map<GptBlockImpl*, Mixture>>();
    const auto mlp = [of_block](GptBlockImpl& block, const torch::Tensor& x) {
      return of_block->at(&block)->forward(x);
    };
    model = Gpt(options, GptParts{.mlp = mlp});
    for (auto& block : model->blocks) {
      block->unregister_module("up");
      block->unregister_module("down");
      block->up = block->down = torch::nn::Linear(nullptr);
      mixtures.push_back(block->register_module("mixture", Mixture(options, chosen, compute)));
      of_block->emplace(block.get(), mixtures.back());
    }
  }

  /// up and down of all blocks: the parameters that the ranks divide.
  std::vector<torch::Tensor> expert_parameters() const {
    std::vector<torch::Tensor> parameters;
    for (const auto& mixture : mixtures) parameters.insert(parameters.end(), {mixture->up, mixture->down});
    return parameters;
  }
  /// All others: every rank has them.
  std::vector<torch::Tensor> dense_parameters() const {
    std::vector<torch::Tensor> parameters;
    for (const auto& item : model->named_parameters()) {
      if (!is_expert(item.key())) parameters.push_back(item.value());
    }
    return parameters;
  }
  static bool is_expert(const std::string& name) {
    return name.ends_with("mixture.up") || name.ends_with("mixture.down");
  }

  /// All parameters and gradients, on every rank; every rank must call it.
  Gathered gather() const {
    const torch::NoGradGuard no_grad;
    const TensorGroup& group = mixtures.front()->options.group;
    Gathered all;
    for (const auto& item : model->named_parameters()) {
      const auto all_of = [&](const torch::Tensor& own) {
        if (!own.defined()) return own;
        return is_expert(item.key()) && group.pointer() ? group.gather(own.detach()) : own.detach().clone();
      };
      all.parameters.insert(item.key(), all_of(item.value()));
      all.gradients.insert(item.key(), all_of(item.value().grad()));
    }
    return all;
  }

  Gpt model{nullptr};
  std::vector<Mixture> mixtures;
};

inline MixtureOptions mixture_options(const Trial& trial, const TensorGroup& group = {}) {
  trial.get(kDataRanks);       // predictions read
  trial.get(kCapacityFactor);  // what a variant has read
  return {trial.get(kExperts), trial.get(kActive), group};
}

/// A variant that takes sizes from the router's choices: skipped where nothing is computed.
inline std::function<Step(const Trial&)> with_numbers(const std::function<Step(const Trial&)>& build) {
  return [build](const Trial& trial) {
    if (memory_only()) trial.skip("its memory depends on values (how many rows an expert has), and none are computed");
    return build(trial);
  };
}

/// Where a rank stands: the ranks along "ep" divide the experts; along "dp", if the mesh has it, ranks have the same.
struct RankPlace {
  TensorGroup experts;
  TensorGroup::Pointer same_experts;  ///< or none
  int64_t place = 0, places = 1;      ///< of the batch
};

inline RankPlace place_of(const Trial& trial) {
  const Mesh::Dimension& along = trial.mesh.along(kExpertParallel);
  RankPlace place{TensorGroup(along.group), {}, along.index, along.size};
  for (const Mesh::Dimension& dimension : trial.mesh.dimensions()) {
    if (dimension.name != kDataParallel) continue;
    place.same_experts = dimension.group;
    place.place += static_cast<int64_t>(dimension.index) * along.size;
    place.places *= dimension.size;
  }
  const int64_t stated = trial.get(kDataRanks);
  TORCH_CHECK_VALUE(place.places == stated * along.size, "setting data_ranks=", stated, ", and ",
                    place.places / along.size, " ranks along dp");
  return place;
}

/// Forward and backward of a batch; its mean loss.
inline torch::Tensor forward_backward(const MoeGpt& moe, const std::pair<torch::Tensor, torch::Tensor>& batch) {
  Gpt model = moe.model;
  torch::Tensor loss = model->loss(model->hidden(batch.first), batch.second);
  loss.backward();
  return loss.detach();
}

}  // namespace tenfold::inline lesson_59
