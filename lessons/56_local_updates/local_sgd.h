// installs as <tenfold/local_sgd.h>
#pragma once
// Ranks that update their own copies of the model for a while, and then agree on one. What is sent is the parameters,
// once in a round, instead of the gradients in every update.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <utility>

#include "flat_model.h"

namespace tenfold {

/// Local SGD: after `inner_updates` updates of its own, each rank has the mean of all ranks' parameters. The
/// optimizer's state stays the rank's own. With one inner update of SGD, with or without momentum, this is data
/// parallel training. Source: S. U. Stich, Local SGD Converges Fast and Communicates Little, 2018 (arXiv:1805.09767).
class LocalSgd {
 public:
  /// `values` (P) are a flat model's. Throws std::invalid_argument (c10::ValueError) for fewer than one inner update.
  LocalSgd(torch::Tensor values, c10::intrusive_ptr<c10d::ProcessGroup> group, int64_t inner_updates)
      : values_(std::move(values)), group_(std::move(group)), inner_updates_(inner_updates) {
    TORCH_CHECK_VALUE(inner_updates >= 1, "a round needs at least one inner update, not ", inner_updates);
  }

  /// Call it after every update. True: a round has ended, and the ranks' parameters are equal.
  bool after_update() {
    if (++updates_ % inner_updates_ != 0) return false;
    mean_over_ranks(values_, group_);
    return true;
  }

 private:
  torch::Tensor values_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int64_t inner_updates_, updates_ = 0;
};

/// SGD with Nesterov's momentum, of a round.
struct OuterSgd {
  double learning_rate = 0.7, momentum = 0.9;  ///< the paper's
};

/// DiLoCo: what a round has moved the ranks' mean by is taken for a gradient, of which an outer optimizer makes the
/// update. A rank keeps two numbers more for each parameter: where the round began, and the outer momentum. Both are
/// the same on all ranks, since all have the same mean. The inner optimizer is usually AdamW.
/// Source: A. Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, 2023
/// (arXiv:2311.08105).
class DiLoCo {
 public:
  /// `values` (P) are a flat model's, equal on all ranks. Throws as LocalSgd does.
  DiLoCo(torch::Tensor values, c10::intrusive_ptr<c10d::ProcessGroup> group, int64_t inner_updates,
         const OuterSgd& outer = {})
      : values_(values),
        start_(values.detach().clone()),
        momentum_(torch::zeros_like(start_)),
        local_(std::move(values), std::move(group), inner_updates),
        outer_(outer) {}

  /// Call it after every update. True: a round has ended, and the ranks' parameters are equal.
  bool after_update() {
    if (!local_.after_update()) return false;
    const torch::NoGradGuard no_grad;
    values_.neg_().add_(start_);  // the outer gradient, start - mean: a step against it goes where the ranks went
    momentum_.mul_(outer_.momentum).add_(values_);
    start_.sub_(values_, outer_.learning_rate);
    start_.sub_(momentum_, outer_.learning_rate * outer_.momentum);
    values_.copy_(start_);
    return true;
  }

 private:
  torch::Tensor values_, start_, momentum_;  // (P) each
  LocalSgd local_;
  OuterSgd outer_;
};

}  // namespace tenfold
