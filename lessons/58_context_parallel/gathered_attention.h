// installs as <tenfold/gathered_attention.h>
#pragma once
// Context parallelism by an all-gather: every rank gets all keys and values at once and computes with them what ring
// attention does, so that a layer's forward waits for one collective instead of N - 1 messages. It needs memory for all
// keys and values. Source: Llama team, The Llama 3 Herd of Models, 2024, section 3.3.2; PyTorch's context_parallel
// (2.11) gathers by default, too, and sends the gradients around.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"
#include "ring_attention.h"
#include "sequence_parts.h"

namespace tenfold {

namespace gathered {

using ring::Group;
using torch::Tensor;

/// All ranks' blocks one behind the other, (2 N, B, G, T / N, d), and one of them, (2, B, G, T / N, d).
inline std::vector<int64_t> sizes_of_all(const Tensor& block, int64_t ranks) {
  std::vector<int64_t> sizes = block.sizes().vec();
  sizes.at(0) *= ranks;
  return sizes;
}
inline Tensor of_source(const Tensor& all, int64_t source) { return all.narrow(0, 2 * source, 2); }

/// All ranks' blocks, on their way while this rank computes with its own.
class Blocks {
 public:
  Blocks(Tensor own, const Group& group) : own_(std::move(own)), rank_(ring::rank_of(group)) {
    if (!group) return;
    all_ = torch::empty(sizes_of_all(own_, group->getSize()), own_.options());
    RECORD_USER_SCOPE("communication");
    work_ = group->_allgather_base(all_, own_);
  }

  /// Rank `source`'s, (2, B, G, T / N, d). Waits for the others when the first of them is asked for.
  Tensor of_rank(int source) {
    if (source == rank_) return own_;
    if (work_) {
      RECORD_USER_SCOPE("communication");
      work_->wait();
      work_ = {};
    }
    return of_source(all_, source);
  }

 private:
  Tensor own_, all_;
  int rank_;
  c10::intrusive_ptr<c10d::Work> work_;
};

/// Of what each rank has for all blocks, (2 N, ...), the sum for this rank's, (2, ...).
inline Tensor reduce_scatter(Tensor of_all, const Group& group) {
  if (!group) return of_all;
  Tensor own = torch::empty_like(of_source(of_all, 0));
  RECORD_USER_SCOPE("communication");
  group->_reduce_scatter_base(own, of_all)->wait();
  return own;
}

struct Attention : torch::autograd::Function<Attention> {
  using Context = torch::autograd::AutogradContext;
  using Gradients = torch::autograd::variable_list;

  static Tensor forward(Context* context, const Tensor& q, const Tensor& k, const Tensor& v, SequenceOrder order,
                        const Group& group) {
    const int rank = ring::rank_of(group), ranks = ring::ranks_of(group);
    Tensor out, lse;
    Blocks blocks(torch::stack({k, v}), group);
    for (int hops = 0; hops < ranks; ++hops) {  // its own block first: that needs nobody
      const int source = ring::source_of(rank, hops, ranks);
      const VisibleBlock seen = visible_block(order, rank, source, q.size(2));
      ring::attend<RescaleParts>(q, blocks.of_rank(source), seen, out, lse);
    }
    out = out.to(q.scalar_type());
    context->save_for_backward({q, k, v, out, lse});
    ring::keep_group(context, group);
    context->saved_data["order"] = static_cast<int64_t>(order);
    return out;
  }

  /// Gathers again: what is kept is the rank's own part. Each rank has a share of every block's gradients.
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("gathered_attention");
    const Group group = ring::kept_group(context);
    const auto order = static_cast<SequenceOrder>(context->saved_data["order"].toInt());
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &out = saved[3], &lse = saved[4];
    const int rank = ring::rank_of(group), ranks = ring::ranks_of(group);
    Tensor of_q, of_all;
    {
      Blocks blocks(torch::stack({saved[1], saved[2]}), group);
      for (int hops = 0; hops < ranks; ++hops) {
        const int source = ring::source_of(rank, hops, ranks);
        const VisibleBlock seen = visible_block(order, rank, source, q.size(2));
        const Tensor block = blocks.of_rank(source);
        const auto share = ring::attend_backward({gradients[0], q, out, lse}, block, seen, of_q);
        if (hops == 0) of_all = torch::zeros(sizes_of_all(block, ranks), lse.options());
        ring::add_share(of_source(of_all, source), share, seen);
      }
    }
    const Tensor of_own = reduce_scatter(of_all, group).to(q.scalar_type());
    return {of_q.to(q.scalar_type()), of_own[0], of_own[1], {}, {}};
  }
};

}  // namespace gathered

/// As ring_attention(), with keys and values gathered: in forward one all-gather of 2 (B, G, T, d), in backward another
/// and a reduce-scatter of as much, in 32 bits. Throws what ring_attention() throws.
inline torch::Tensor gathered_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                        SequenceOrder order, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  ring::check_parts(q, k, v, order);
  return gathered::Attention::apply(autocast_input(q), autocast_input(k), autocast_input(v), order, group);
}

}  // namespace tenfold
