// installs as <tenfold/ulysses.h>
#pragma once
// Ulysses: between the layers a rank has a part of the tokens with all heads; for attention an all-to-all makes it all
// tokens with a part of the heads, and another one makes it tokens again. Source: S. A. Jacobs et al., DeepSpeed
// Ulysses: System Optimizations for Enabling Training of Extreme Long Sequence Transformer Models, 2023.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/54_model_parallel/tensor_group.h"

namespace tenfold {

namespace ulysses {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using torch::Tensor;

/// Row i of `parts`, (N, ...), goes to rank i; row i of the result has come from there.
inline Tensor all_to_all(const Tensor& parts, const Group& group) {
  Tensor sent = parts.contiguous(), received = torch::empty_like(sent);
  std::vector<int64_t> even;  // none: rows of equal size
  RECORD_USER_SCOPE("communication");
  group->alltoall_base(received, sent, even, even)->wait();
  return received;
}

/// (B, T / N, C, H, d) to (B, T, C, H / N, d), the tokens in the order of their ranks.
inline Tensor to_heads(const Tensor& tokens, const Group& group) {
  const int64_t ranks = group->getSize(), heads = tokens.size(3) / ranks;
  const Tensor parts = tokens.unflatten(3, {ranks, heads}).movedim(3, 0);  // (N, B, T / N, C, H / N, d)
  return all_to_all(parts, group).transpose(0, 1).flatten(1, 2);
}

/// (B, T, C, H / N, d) to (B, T / N, C, H, d).
inline Tensor to_tokens(const Tensor& heads, const Group& group) {
  const int64_t ranks = group->getSize(), tokens = heads.size(1) / ranks;
  const Tensor parts = heads.unflatten(1, {ranks, tokens}).movedim(1, 0);  // (N, B, T / N, C, H / N, d)
  return all_to_all(parts, group).movedim(0, 3).flatten(3, 4);
}

/// Each of the two is the other's backward.
template <bool kToHeads>
struct Exchange : torch::autograd::Function<Exchange<kToHeads>> {
  using Context = torch::autograd::AutogradContext;
  using Gradients = torch::autograd::variable_list;

  static Tensor forward(Context* context, const Tensor& x, const Group& group) {
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    return kToHeads ? to_heads(x, group) : to_tokens(x, group);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("ulysses");
    const auto group = c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(context->saved_data["group"].toCapsule());
    return {kToHeads ? to_tokens(gradients[0], group) : to_heads(gradients[0], group), {}};
  }
};

}  // namespace ulysses

/// Tokens to heads: (B, T / N, C, H, d) of each rank to (B, T, C, H / N, d). C is 3 for queries, keys and values, which
/// then go in one message. With grouped heads queries go alone, C = 1, and keys and values with C = 2: a rank gets the
/// groups of its queries' heads, so that scaled_dot_product_attention(enable_gqa) takes them as they are; the ranks
/// must divide the groups, too. Under autocast x is sent in 16 bits, which attention would cast it to. Without a group
/// there is one rank. Throws c10::ValueError unless the ranks divide the heads.
inline torch::Tensor tokens_to_heads(const torch::Tensor& x, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (!group) return x;
  TORCH_CHECK_VALUE(x.size(3) % group->getSize() == 0, "Ulysses: ", group->getSize(), " ranks do not divide ",
                    x.size(3), " heads (or groups of heads); ring attention has no such limit");
  return ulysses::Exchange<true>::apply(autocast_input(x), group);
}

/// Heads to tokens: (B, T, C, H / N, d) of each rank to (B, T / N, C, H, d). Throws c10::ValueError unless the ranks
/// divide the tokens.
inline torch::Tensor heads_to_tokens(const torch::Tensor& x, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (!group) return x;
  TORCH_CHECK_VALUE(x.size(1) % group->getSize() == 0, "Ulysses: ", group->getSize(), " ranks do not divide ",
                    x.size(1), " tokens");
  return ulysses::Exchange<false>::apply(x, group);
}

}  // namespace tenfold
