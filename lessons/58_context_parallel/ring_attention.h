// installs as <tenfold/ring_attention.h>
#pragma once
// Ring attention: each rank has a part of a sequence's queries, keys and values. Its queries stay; keys and values go
// around the ranks, and while the next block comes a rank computes with the one that it has. One source for CPU (Gloo)
// and GPU (NCCL). Source: H. Liu, M. Zaharia and P. Abbeel, Ring Attention with Blockwise Transformers for
// Near-Infinite Context, 2023.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "attention_block.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/50_collectives/coalesced_messages.h"
#include "lessons/54_model_parallel/tensor_group.h"
#include "sequence_parts.h"

namespace tenfold {

namespace ring {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using torch::Tensor;

/// A message to the next rank, under way together with the one from the rank before. Messages of two kinds may be under
/// way at the same time: the tag says which. Every rank must start the same ones in the same order.
class Hop {
 public:
  enum Kind { kBlock = 1, kGradients = 2 };

  /// `sent` is contiguous, and may be read but not written until wait() has returned.
  Hop(const Tensor& sent, const Group& group, Kind kind) : sent_{sent}, received_{torch::empty_like(sent)} {
    RECORD_USER_SCOPE("communication");
    const int rank = group->getRank(), ranks = group->getSize();
    // As one call: NCCL would run the receive after the send, and all ranks would wait with their sends.
    std::optional<CoalescedMessages> as_one;
    if (sent.is_cuda()) as_one.emplace(*group, c10::DeviceType::CUDA);
    works_.push_back(group->send(sent_, (rank + 1) % ranks, kind));
    works_.push_back(group->recv(received_, (rank + ranks - 1) % ranks, kind));
    if (as_one) works_ = {as_one->end()};
  }

  Tensor wait() {
    RECORD_USER_SCOPE("communication");
    for (const auto& work : works_) work->wait();
    return received_[0];
  }

 private:
  std::vector<Tensor> sent_, received_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

inline int rank_of(const Group& group) { return group ? group->getRank() : 0; }
inline int ranks_of(const Group& group) { return group ? group->getSize() : 1; }

/// A group among what a graph's node keeps; none if there is none.
inline void keep_group(torch::autograd::AutogradContext* context, const Group& group) {
  if (group) context->saved_data["group"] = c10::IValue::make_capsule(group);
}
inline Group kept_group(torch::autograd::AutogradContext* context) {
  const auto kept = context->saved_data.find("group");
  if (kept == context->saved_data.end()) return {};
  return c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(kept->second.toCapsule());
}

/// The rank whose block is here after so many hops.
inline int source_of(int rank, int hops, int ranks) { return (rank - hops + ranks) % ranks; }

/// Attention of what queries see of a block of keys and values, (2, B, G, T / N, d): merged into `out` and `lse`, which
/// the rank's own block, the first, makes. `Merge`: how two parts of a result become one.
template <class Merge>
void attend(const Tensor& q, const Tensor& block, const VisibleBlock& seen, Tensor& out, Tensor& lse) {
  if (seen.queries == 0) return;
  const auto queries = [&](const Tensor& t) { return t.narrow(2, seen.first_query, seen.queries); };
  const Tensor keys = block[0].narrow(2, 0, seen.keys), values = block[1].narrow(2, 0, seen.keys);
  const auto [part, part_lse] = attention_block(queries(q), keys, values, seen.causal);
  if (!out.defined()) {
    out = part.to(part_lse.scalar_type());  // sums of 16 bits would round with every block
    lse = part_lse;
  } else {
    Merge::merge(queries(out), queries(lse), part, part_lse);
  }
}

/// What attend() has kept for its backward.
struct Attended {
  const Tensor &gradient, &q, &out, &lse;
};

/// A block's share of the gradients: that of the queries is added to `of_q`, which the first makes; those of the keys
/// and values that are seen are returned.
inline std::optional<QkvGradients> attend_backward(const Attended& of, const Tensor& block, const VisibleBlock& seen,
                                                   Tensor& of_q) {
  if (seen.queries == 0) return {};
  const auto queries = [&](const Tensor& t) { return t.narrow(2, seen.first_query, seen.queries); };
  const Tensor keys = block[0].narrow(2, 0, seen.keys), values = block[1].narrow(2, 0, seen.keys);
  QkvGradients share = attention_block_backward(queries(of.gradient), queries(of.q), keys, values, queries(of.out),
                                                queries(of.lse), seen.causal);
  if (!of_q.defined())
    of_q = share.q.to(of.lse.scalar_type());
  else
    queries(of_q).add_(share.q);
  return share;
}
/// Adds it to the sum of a block's gradients, (2, B, G, T / N, d).
inline void add_share(const Tensor& of_block, const std::optional<QkvGradients>& share, const VisibleBlock& seen) {
  if (!share) return;
  of_block[0].narrow(2, 0, seen.keys).add_(share->k);
  of_block[1].narrow(2, 0, seen.keys).add_(share->v);
}

template <class Merge>
struct Attention : torch::autograd::Function<Attention<Merge>> {
  using Context = torch::autograd::AutogradContext;
  using Gradients = torch::autograd::variable_list;

  static Tensor forward(Context* context, const Tensor& q, const Tensor& k, const Tensor& v, SequenceOrder order,
                        const Group& group) {
    const int rank = rank_of(group), ranks = ranks_of(group);
    Tensor out, lse, block = torch::stack({k, v});  // keys and values in one message, (2, B, G, T / N, d)
    for (int hops = 0; hops < ranks; ++hops) {
      std::optional<Hop> next;
      if (hops + 1 < ranks) next.emplace(block, group, Hop::kBlock);
      attend<Merge>(q, block, visible_block(order, rank, source_of(rank, hops, ranks), q.size(2)), out, lse);
      if (next) block = next->wait();
    }
    out = out.to(q.scalar_type());
    context->save_for_backward({q, k, v, out, lse});
    keep_group(context, group);
    context->saved_data["order"] = static_cast<int64_t>(order);
    return out;
  }

  /// Keys and values go around once more, and one hop behind them the sum of their gradients. What the owner adds stays
  /// with it, so that both make N - 1 hops: the last one brings the sum home.
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("ring_attention");
    const Group group = kept_group(context);
    const auto order = static_cast<SequenceOrder>(context->saved_data["order"].toInt());
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &out = saved[3], &lse = saved[4];
    const int rank = rank_of(group), ranks = ranks_of(group);
    Tensor block = torch::stack({saved[1], saved[2]}), of_q, of_own;
    std::optional<Hop> sum;
    for (int hops = 0; hops < ranks; ++hops) {
      std::optional<Hop> next;
      if (hops + 1 < ranks) next.emplace(block, group, Hop::kBlock);
      const VisibleBlock seen = visible_block(order, rank, source_of(rank, hops, ranks), q.size(2));
      const auto share = attend_backward({gradients[0], q, out, lse}, block, seen, of_q);
      // What a rank adds to its own block's sum stays; what goes around begins with the first rank after it, and is
      // waited for only here: it travels while the block's gradients are computed.
      Tensor of_block = hops < 2 ? torch::zeros(block.sizes(), lse.options()) : sum->wait();  // (2, B, G, T / N, d)
      add_share(of_block, share, seen);
      if (hops == 0)
        of_own = of_block;
      else
        sum.emplace(of_block, group, Hop::kGradients);
      if (next) block = next->wait();
    }
    if (sum) of_own.add_(sum->wait());
    of_own = of_own.to(q.scalar_type());
    return {of_q.to(q.scalar_type()), of_own[0], of_own[1], {}, {}};
  }
};

inline void check_parts(const Tensor& q, const Tensor& k, const Tensor& v, SequenceOrder order) {
  const bool are_heads = q.dim() == 4 && k.dim() == 4 && k.size(1) > 0 && q.size(1) % k.size(1) == 0;
  TORCH_CHECK_VALUE(are_heads && k.sizes().equals(v.sizes()) && k.size(0) == q.size(0) && k.size(2) == q.size(2) &&
                        k.size(3) == q.size(3),
                    "context parallelism: queries are (B, H, T / N, d), keys and values (B, G, T / N, d), where G "
                    "divides H, not ",
                    q.sizes(), ", ", k.sizes(), ", ", v.sizes());
  TORCH_CHECK_VALUE(order == SequenceOrder::contiguous || q.size(2) % 2 == 0,
                    "context parallelism in zigzag order: a rank has two chunks of equal size, not ", q.size(2),
                    " tokens");
}

}  // namespace ring

/// Causal attention of a sequence that is divided over the ranks of a group: this rank's queries, (B, H, T / N, d),
/// keys and values, (B, G, T / N, d), to what its queries get, (B, H, T / N, d), laid out as (B, T / N, H, d). G is H,
/// or with grouped heads a divisor of it, as in scaled_dot_product_attention(enable_gqa). Which tokens those are
/// places_of_rank() says. Without a group there is one rank. A rank sends 2 (N - 1) blocks of (B, G, T / N, d) in
/// forward and 4 (N - 1) in backward, where the gradients among them have 32 bits. Throws c10::ValueError for shapes
/// that do not go together, or an odd number of tokens in the order zigzag. Under autocast it computes and sends in its
/// type, as scaled_dot_product_attention() does; rotated or normalised queries and keys may come in 32 bits.
template <class Merge = RescaleParts>
torch::Tensor ring_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             SequenceOrder order, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  ring::check_parts(q, k, v, order);
  return ring::Attention<Merge>::apply(autocast_input(q), autocast_input(k), autocast_input(v), order, group);
}

}  // namespace tenfold
