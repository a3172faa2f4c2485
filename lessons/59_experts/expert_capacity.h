// installs as <tenfold/expert_capacity.h>
#pragma once
// A mixture of experts with a capacity: each expert has a buffer of so many rows. Sizes are then fixed, the host reads
// nothing and an all-to-all sends equal parts. Tokens beyond an expert's capacity are dropped (the residual stream
// carries them on), and an expert's empty rows are computed and sent as zeros. Sources: D. Lepikhin et al., GShard,
// 2020; W. Fedus et al., Switch Transformers, 2021.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "expert_parallel.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "mixture_of_experts.h"

namespace tenfold {

/// Rows of an expert's buffer for n k `pairs`: `factor` times the mean. An expert cannot get more than one row of a
/// token, so `tokens` is where nothing can be dropped; `factor` 0 means that.
inline int64_t capacity_of(int64_t pairs, int64_t tokens, int64_t experts, double factor) {
  TORCH_CHECK_VALUE(factor >= 0, "a capacity factor of ", factor, " is below 0");
  if (factor == 0) return tokens;
  const double rows = std::ceil(factor * static_cast<double>(pairs) / static_cast<double>(experts));
  return std::clamp<int64_t>(static_cast<int64_t>(rows), 1, tokens);
}

/// In which row of the buffers, (E capacity), each pair stands; E capacity: it is dropped.
struct ExpertSlots {
  torch::Tensor slots;  ///< (n k), int64
  int64_t experts = 0, capacity = 0;

  int64_t rows() const { return experts * capacity; }
  /// How many pairs are dropped: a scalar on the device.
  torch::Tensor dropped() const { return slots.eq(rows()).sum(); }
};

/// Earlier tokens come first. `experts` (n, k).
inline ExpertSlots assign_slots(const torch::Tensor& experts, int64_t number, int64_t capacity) {
  const torch::Tensor flat = experts.flatten();
  const ExpertOrder sorted = sort_by_expert(flat, number);
  const torch::Tensor begins = sorted.counts.cumsum(0) - sorted.counts;
  const torch::Tensor places = sorted.inverse - begins.index_select(0, flat);  // among the expert's pairs
  return {torch::where(places < capacity, flat * capacity + places, number * capacity), number, capacity};
}

namespace expert_capacity {

using Context = torch::autograd::AutogradContext;
using Gradients = torch::autograd::variable_list;

/// Pairs (n k, D) into buffers (rows, D), and what is dropped nowhere.
inline torch::Tensor into_buffers(const torch::Tensor& pairs, const torch::Tensor& slots, int64_t rows) {
  torch::Tensor buffers = torch::zeros({rows + 1, pairs.size(1)}, pairs.options());  // the last row takes the dropped
  return buffers.index_copy_(0, slots, pairs).narrow(0, 0, rows);
}

/// Out of buffers; a dropped pair gets zeros, whatever is in the row that is read for it: an infinity times 0 is NaN.
inline torch::Tensor out_of_buffers(const torch::Tensor& buffers, const torch::Tensor& slots) {
  const int64_t rows = buffers.size(0);
  return buffers.index_select(0, slots.clamp_max(rows - 1)).masked_fill_(slots.ge(rows).unsqueeze(-1), 0);
}

struct Fill : torch::autograd::Function<Fill> {
  static torch::Tensor forward(Context* context, const torch::Tensor& x, const torch::Tensor& slots, int64_t rows) {
    context->save_for_backward({slots});
    context->saved_data["tokens"] = x.size(0);
    const torch::Tensor tokens = torch::arange(slots.size(0), slots.options()).floor_divide_(slots.size(0) / x.size(0));
    return into_buffers(x.index_select(0, tokens), slots, rows);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    const torch::Tensor pairs = out_of_buffers(gradients[0], context->get_saved_variables()[0]);
    return {pairs.view({context->saved_data["tokens"].toInt(), -1, pairs.size(1)}).sum(1), {}, {}};
  }
};

struct Empty : torch::autograd::Function<Empty> {
  static torch::Tensor forward(Context* context, const torch::Tensor& buffers, const torch::Tensor& slots) {
    context->save_for_backward({slots});
    context->saved_data["rows"] = buffers.size(0);
    return out_of_buffers(buffers, slots);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    const torch::Tensor slots = context->get_saved_variables()[0];
    return {into_buffers(gradients[0], slots, context->saved_data["rows"].toInt()), {}};
  }
};

}  // namespace expert_capacity

/// The mixture of this rank's tokens `x` (n, D) with buffers of `capacity` rows for each expert and rank. `up`
/// (E / N, D, F) and `down` (E / N, F, D) are this rank's experts; without a group all are.
inline torch::Tensor capacity_mlp(const torch::Tensor& x, const Routing& routing, int64_t capacity,
                                  const torch::Tensor& up, const torch::Tensor& down, const TensorGroup& group = {}) {
  const int64_t ranks = group.ranks(), own = up.size(0), width = x.size(1);
  const ExpertSlots slots = assign_slots(routing.experts, own * ranks, capacity);
  const std::vector<int64_t> equal(static_cast<size_t>(ranks), own * capacity);
  torch::Tensor rows = expert_capacity::Fill::apply(autocast_input(x), slots.slots, slots.rows());
  rows = all_to_all(rows, {equal, equal}, group).view({ranks, own, capacity, width});
  rows = rows.transpose(0, 1).reshape({own, ranks * capacity, width});  // by expert
  rows = torch::gelu(rows.bmm(up), "tanh").bmm(down);
  rows = rows.view({own, ranks, capacity, width}).transpose(0, 1).reshape({-1, width});  // by rank again
  rows = all_to_all(rows, {equal, equal}, group);
  return weighted_sum(expert_capacity::Empty::apply(rows, slots.slots), routing.weights);
}

}  // namespace tenfold
