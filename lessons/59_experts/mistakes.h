#pragma once
// What goes wrong in other people's mixtures, for the agreement check to find.

#include <torch/torch.h>

#include "mixture_of_experts.h"
#include "moe_gpt.h"

namespace tenfold::inline lesson_59 {

/// Wrong: scales what goes into a nonlinear expert.
inline torch::Tensor weights_first(const torch::Tensor& x, const Routing& routing, const MixtureImpl& of) {
  const ExpertOrder order = sort_by_expert(routing.experts, of.options.experts);
  const torch::Tensor pairs = (x.unsqueeze(1) * routing.weights.unsqueeze(-1)).flatten(0, 1);
  const torch::Tensor rows = unpermute_rows(pairs, order.inverse, order.order);
  const torch::Tensor results =
      unpermute_rows(grouped_mlp(rows, of.up, of.down, group_ends(order.counts)), order.order, order.inverse);
  return weighted_sum(results, torch::ones_like(routing.weights));
}

/// Wrong: undoes a permutation by the permutation.
inline torch::Tensor order_for_inverse(const torch::Tensor& x, const Routing& routing, const MixtureImpl& of) {
  const ExpertOrder order = sort_by_expert(routing.experts, of.options.experts);
  const torch::Tensor results =
      grouped_mlp(permute_tokens(x, order, of.options.active), of.up, of.down, group_ends(order.counts));
  return weighted_sum(unpermute_rows(results, order.inverse, order.order), routing.weights);
}

}  // namespace tenfold::inline lesson_59
