// installs as <tenfold/mixture_of_experts.h>
#pragma once
// A mixture of experts in the place of an MLP: a router chooses a few of many MLPs for each token. The pairs of a token
// and its expert are sorted by expert, so that each expert's rows are contiguous and one grouped matmul computes all of
// them. Sources: N. Shazeer et al., Outrageously Large Neural Networks, 2017; W. Fedus et al., Switch Transformers,
// 2021; T. Gale et al., MegaBlocks, 2022, which drops no token.

#include <torch/torch.h>

#include <ATen/OpMathType.h>

#include <cstdint>

#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/54_model_parallel/tensor_group.h"

namespace tenfold {

/// Which experts a token goes to, and how much each counts.
struct Routing {
  torch::Tensor experts;        ///< (n, k), int64
  torch::Tensor weights;        ///< (n, k), differentiable
  torch::Tensor probabilities;  ///< (n, E), differentiable; what a balance loss needs

  int64_t pairs() const { return experts.numel(); }
};

/// The k most probable experts of each of n tokens `x` (n, D), by a linear router (E, D). The weights are their
/// probabilities: for k > 1 divided by their sum, as Mixtral has it; for k = 1 not, or the weight would always be 1 and
/// the router would have no gradient. `bias` (E), if it is defined, is added for the choice alone, not for the weights.
/// Throws c10::ValueError unless 1 <= k <= E.
inline Routing route(const torch::Tensor& x, const torch::Tensor& router, int64_t active,
                     const torch::Tensor& bias = {}) {
  TORCH_CHECK_VALUE(active >= 1 && active <= router.size(0), "each token uses ", active, " of ", router.size(0),
                    " experts");
  Routing routing;
  {
    // Under autocast, too, not in 16 bits: many scores would be equal, and ties go to other experts than in 32.
    const Autocast off(x.device().type(), torch::kBFloat16, /*enabled=*/false);
    const torch::ScalarType wide = at::toOpMathType(x.scalar_type());
    routing.probabilities = torch::linear(x.to(wide), router.to(wide)).softmax(-1);
  }
  const torch::Tensor scores = routing.probabilities.detach();
  routing.experts = std::get<1>((bias.defined() ? scores + bias : scores).topk(active, -1));
  routing.weights = routing.probabilities.gather(1, routing.experts);
  if (active > 1) routing.weights = routing.weights / routing.weights.sum(-1, /*keepdim=*/true);
  return routing;
}

/// The pairs of a token and an expert, sorted by expert; pair j of n k is token j / k. Pairs of one expert keep their
/// order. Nothing here is read by the host.
struct ExpertOrder {
  torch::Tensor order;    ///< (n k): which pair stands in each row
  torch::Tensor inverse;  ///< (n k): in which row each pair stands
  torch::Tensor counts;   ///< (E), int64: rows of each expert
};

/// A permutation the other way round: `inverse[order[i]] = i`.
inline torch::Tensor inverse_of(const torch::Tensor& order) {
  return torch::empty_like(order).scatter_(0, order, torch::arange(order.size(0), order.options()));
}

/// `experts` (...), int64, each 0 to `number` - 1.
inline ExpertOrder sort_by_expert(const torch::Tensor& experts, int64_t number) {
  const torch::Tensor flat = experts.flatten();
  ExpertOrder sorted;
  sorted.order = flat.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  sorted.inverse = inverse_of(sorted.order);
  sorted.counts = torch::zeros({number}, flat.options()).scatter_add_(0, flat, torch::ones_like(flat));
  return sorted;
}

namespace mixture_of_experts {

using Context = torch::autograd::AutogradContext;
using Gradients = torch::autograd::variable_list;

/// Takes rows by number. Each row of `x` is taken `copies` times, and backward() adds their gradients by looking them
/// up. index_select's own backward adds with atomics on a GPU: in another order in each run.
struct TakeRows : torch::autograd::Function<TakeRows> {
  static torch::Tensor forward(Context* context, const torch::Tensor& x, const torch::Tensor& rows,
                               const torch::Tensor& places, int64_t copies) {
    context->save_for_backward({places});
    context->saved_data["copies"] = copies;
    return x.index_select(0, rows);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    const int64_t copies = context->saved_data["copies"].toInt();
    const torch::Tensor taken = gradients[0].index_select(0, context->get_saved_variables()[0]);
    return {copies == 1 ? taken : taken.view({-1, copies, taken.size(1)}).sum(1), {}, {}, {}};
  }
};

}  // namespace mixture_of_experts

/// Tokens (n, D) to rows (n k, D) that are sorted by expert.
inline torch::Tensor permute_tokens(const torch::Tensor& x, const ExpertOrder& sorted, int64_t active) {
  return mixture_of_experts::TakeRows::apply(x, sorted.order.floor_divide(active), sorted.inverse, active);
}

/// Rows (m, D) back into the order that they had before `order` sorted them.
inline torch::Tensor unpermute_rows(const torch::Tensor& rows, const torch::Tensor& order,
                                    const torch::Tensor& inverse) {
  return mixture_of_experts::TakeRows::apply(rows, inverse, order, int64_t{1});
}

/// Rows of pairs (n k, D), in the tokens' order, to each token's weighted sum (n, D), of their type.
inline torch::Tensor weighted_sum(const torch::Tensor& pairs, const torch::Tensor& weights) {
  return (pairs.view({weights.size(0), weights.size(1), -1}) * weights.unsqueeze(-1)).sum(1).to(pairs.scalar_type());
}

/// Where the rows of each expert end, (E), int32: what a grouped matmul reads on the device.
inline torch::Tensor group_ends(const torch::Tensor& counts) { return counts.cumsum(0).to(torch::kInt); }

/// Each expert's MLP on its own rows: rows (m, D) sorted by expert, `up` (E, D, F), `down` (E, F, D), `ends` (E), to
/// (m, D). D and F must be multiples of 16 bytes. In bfloat16 on CUDA of compute capability 9.0 or 10.x ATen has one
/// kernel for all groups and the host waits for nothing; elsewhere it loops over the experts and reads `ends` on the
/// host. Under autocast it computes in autocast's type and returns it: _grouped_mm is in none of autocast's lists
/// (2.11), so it would compute in 32 bits, one expert after the other.
inline torch::Tensor grouped_mlp(const torch::Tensor& rows, const torch::Tensor& up, const torch::Tensor& down,
                                 const torch::Tensor& ends) {
  if (rows.size(0) == 0) {  // a rank without a token: the kernel would be given a null pointer; gradients are zeros
    const torch::Tensor none = autocast_input(rows).expand({up.size(0), 0, rows.size(1)});  // (E, 0, D)
    return torch::gelu(none.bmm(autocast_input(up)), "tanh").bmm(autocast_input(down)).sum(0);
  }
  const torch::Tensor inner = at::_grouped_mm(autocast_input(rows), autocast_input(up), ends);
  return at::_grouped_mm(torch::gelu(inner, "tanh"), autocast_input(down), ends);
}

/// The mixture of tokens `x` (n, D) where all experts are on this device: `up` (E, D, F), `down` (E, F, D). Drops
/// nothing.
inline torch::Tensor sorted_mlp(const torch::Tensor& x, const Routing& routing, const torch::Tensor& up,
                                const torch::Tensor& down) {
  const ExpertOrder sorted = sort_by_expert(routing.experts, up.size(0));
  const torch::Tensor rows = permute_tokens(autocast_input(x), sorted, routing.experts.size(1));  // (n k, D)
  const torch::Tensor results = grouped_mlp(rows, up, down, group_ends(sorted.counts));
  return weighted_sum(unpermute_rows(results, sorted.order, sorted.inverse), routing.weights);
}

// --- balance ---

/// Switch Transformer's auxiliary loss: E times the sum over the experts of the share of pairs an expert gets and its
/// mean probability. 1 when all get the same. The shares are constants: the gradient goes through the probabilities.
/// It is no mean over tokens: ranks that each compute their own do not sum to that of the global batch.
inline torch::Tensor balance_loss(const Routing& routing, const torch::Tensor& counts) {
  const torch::Tensor shares = counts.to(torch::kFloat) / static_cast<double>(routing.pairs());  // (E)
  return (shares * routing.probabilities.mean(0)).sum() * counts.size(0);
}

/// Balance without a loss: after an update an expert that had more pairs than the mean loses `rate` of its bias, one
/// that had fewer gains it. `counts` are those of all ranks. Source: L. Wang et al., Auxiliary-Loss-Free Load Balancing
/// Strategy for Mixture-of-Experts, 2024.
inline void update_bias(const torch::Tensor& bias, const torch::Tensor& counts, double rate) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor load = counts.to(torch::kFloat);
  bias.add_((load.mean() - load).sign_(), rate);
}

}  // namespace tenfold
