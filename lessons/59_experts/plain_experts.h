#pragma once
// Two ways to compute a mixture without sorting: every expert over every token, and a loop over the experts.

#include <torch/torch.h>

#include "mixture_of_experts.h"
#include "moe_gpt.h"

namespace tenfold::inline lesson_59 {

/// Without the technique: every expert computes every token, and those that a token does not use count nothing.
inline torch::Tensor every_expert(const torch::Tensor& x, const Routing& routing, const MixtureImpl& of) {
  const int64_t experts = of.options.experts;
  const torch::Tensor counted = torch::zeros({x.size(0), experts}, x.options())
                                    .scatter(1, routing.experts, routing.weights);  // (n, E): most are zero
  const torch::Tensor all = x.unsqueeze(0).expand({experts, -1, -1});
  const torch::Tensor results = torch::gelu(all.bmm(of.up), "tanh").bmm(of.down);  // (E, n, D)
  return (results * counted.t().unsqueeze(-1)).sum(0);
}

/// Each expert looks up its tokens: the host waits for each expert's number of them.
inline torch::Tensor loop_over_experts(const torch::Tensor& x, const Routing& routing, const MixtureImpl& of) {
  const auto up = of.up.unbind(0), down = of.down.unbind(0);
  torch::Tensor sum = torch::zeros_like(x);
  for (size_t expert = 0; expert < up.size(); ++expert) {
    const auto pairs = torch::nonzero_numpy(routing.experts.eq(static_cast<int64_t>(expert)));  // tokens, slots
    const torch::Tensor result = torch::gelu(x.index_select(0, pairs[0]).mm(up[expert]), "tanh").mm(down[expert]);
    sum = sum.index_add(0, pairs[0], result * routing.weights.index({pairs[0], pairs[1]}).unsqueeze(-1));
  }
  return sum;
}

}  // namespace tenfold::inline lesson_59
