#pragma once
// The GPT on rounds of batches whose lengths differ: what all variants of lesson 32 share.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "batch_lengths.h"
#include "common/measure/trial.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_32 {

/// Lets cuBLAS make the workspaces that it keeps for good, in segments of their own. Made in the middle of a step, in
/// what a large tensor has just freed, each would keep all of that from being given back.
inline const Trial& with_workspaces(const Trial& trial) {
  const torch::Tensor weight = torch::ones({8, 8}, trial.device).requires_grad_();
  weight.mm(weight).sum().backward();  // whose thread has a handle of its own
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): callers keep what they pass
  return trial;
}

/// Model and optimizer of the trial's seed and settings; its batches are windows of the plays, each cut to the length
/// that a batch of speeches would have.
class LengthTraining {
 public:
  /// `order` is one of the setting's choices.
  LengthTraining(const Trial& trial, std::string order)
      : gpt(with_workspaces(trial)),
        device(trial.device),
        rising_(order == "equal"
                    ? std::vector<int64_t>(static_cast<size_t>(trial.get(kBatches)), trial.get(gpt::kLength))
                    : rising_lengths(trial, trial.get(kBatches))),
        likely_(order == "drawn" ? rising_lengths(trial, kLikely) : rising_),
        order_(std::move(order)),
        multiple_(trial.get(kMultiple)),
        seed_(trial.seed) {
    TORCH_CHECK_VALUE(multiple_ >= 1, "setting multiple=", multiple_, " must be at least 1");
  }

  /// Lengths of the next round's batches. Equal seeds give equal lengths.
  std::vector<int64_t> next_lengths() {
    if (order_ == "drawn") return picked_lengths(likely_, static_cast<int64_t>(rising_.size()), seed_, round_++);
    return drawn_lengths(rising_, order_, seed_, round_++);
  }

  /// Ids and next ids, (B, padded) each, of which the first `length` of a sequence count. Region "data".
  std::pair<torch::Tensor, torch::Tensor> next_batch(int64_t length, int64_t padded) {
    auto [ids, targets] = gpt.next_batch();  // (B, T) each
    RECORD_USER_SCOPE("data");
    // A target of -100 is what cross-entropy ignores.
    if (padded > length) targets.narrow(1, length, padded - length).fill_(-100);
    return {ids.narrow(1, 0, padded).contiguous(), targets.narrow(1, 0, padded).contiguous()};
  }

  /// Preallocates: momentum, by a step on gradients of zero, which leaves the weights as they are, and then a pass on
  /// the longest batch, whose numbers nobody uses. Its blocks stay in the cache.
  void run_longest() {
    for (const torch::Tensor& weight : gpt.model->parameters()) weight.mutable_grad() = torch::zeros_like(weight);
    gpt.optimizer->step();
    gpt.optimizer->zero_grad();
    const torch::Tensor ids =
        torch::zeros({gpt.model->options.batch, longest()}, torch::dtype(torch::kLong).device(device));  // (B, T)
    gpt.model->loss(gpt.model->hidden(ids), ids).backward();
    gpt.optimizer->zero_grad();
  }

  int64_t rounded(int64_t length) const { return rounded_up(length, multiple_, gpt.model->options.length); }
  int64_t longest() const { return likely_.back(); }  ///< of all that may come
  /// Where lengths are drawn, those of a typical round.
  int64_t tokens_of_round() const {
    return gpt.model->options.batch * std::accumulate(rising_.begin(), rising_.end(), int64_t{0});
  }

  GptTraining gpt;
  torch::Device device;

 private:
  static constexpr int64_t kLikely = 256;  // quantiles that stand for all lengths

  std::vector<int64_t> rising_, likely_;
  std::string order_;
  int64_t multiple_;
  uint64_t seed_;
  int64_t round_ = 0;
};

/// Most bytes alive in a step of the baseline: that of the round's longest batch. Positions that no batch reaches have
/// a parameter, a gradient and a momentum; a batch is cut from one of full length.
inline int64_t most_bytes(const Trial& trial) {
  GptOptions options = gpt_options(trial);
  const int64_t context = options.length;
  options.length = trial.get(kOrder) == "drawn" ? context : tokens_of_round(trial).longest;
  const int64_t positions = 3 * 4 * (context - options.length) * options.width;
  return step_peak_bytes(options) + positions + 2 * 8 * options.batch * context;
}

}  // namespace tenfold::inline lesson_32
