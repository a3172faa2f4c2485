#pragma once
// The baseline of case "16 bits": data parallel training of a model that computes with 16-bit copies of its parameters.
// The optimizer's parameters, the sum of the gradients and AdamW's averages have 32 bits, whole on every rank.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "lessons/52_ddp/rank_training.h"
#include "settings.h"
#include "sharded_training.h"

namespace tenfold::inline lesson_53 {

struct SixteenBitTraining : RankTraining {
  explicit SixteenBitTraining(const Trial& trial)
      : RankTraining(trial, own_shard(trial), rows_of_rank(trial), trial.get(kMicroBatches)) {
    freeze(*model, trial);
    if (trial.group) broadcast_from_rank_0(model->parameters(), *trial.group);
    for (const auto& item : model->named_parameters()) {
      torch::Tensor copy = item.value();
      masters.insert(item.key(), copy.detach().requires_grad_(copy.requires_grad()));
      copy.set_data(copy.detach().to(torch::kBFloat16));
    }
  }

  /// Before the first forward of an update.
  void copy_to_model() const {
    const torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) item.value().copy_(masters[item.key()]);
  }

  /// After each backward: added up in 32 bits.
  void take_gradients() const {
    const torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      torch::Tensor& gradient = item.value().mutable_grad();
      if (!gradient.defined()) continue;
      torch::Tensor& sum = masters[item.key()].mutable_grad();
      if (sum.defined()) {
        sum += gradient;
      } else {
        sum = gradient.to(torch::kFloat);
      }
      gradient = torch::Tensor();
    }
  }

  Parameters masters;
};

/// As lesson.cpp's data_parallel(), line by line.
inline Step data_parallel_in_16_bits(const Trial& trial) {
  auto training = std::make_shared<SixteenBitTraining>(trial);
  std::vector<torch::Tensor> parameters = training->masters.values();
  std::erase_if(parameters, [](const torch::Tensor& parameter) { return !parameter.requires_grad(); });
  training->optimizer = std::make_unique<torch::optim::AdamW>(parameters, adamw_options(trial));
  const auto buckets = assign_buckets(parameters, bucket_sizes(trial));
  auto update = [=, group = trial.group, max_norm = trial.get(kMaxNorm)] {
    const auto parts = training->next_parts();
    torch::Tensor total = training->no_loss_yet();
    training->optimizer->zero_grad();
    training->copy_to_model();
    for (const Sequences& part : parts) {
      total += training->forward_backward(part);
      training->take_gradients();
    }
    if (group) average_in_buckets(parameters, buckets, *group);
    if (max_norm > 0) torch::nn::utils::clip_grad_norm_(parameters, max_norm);
    training->optimizer_step();
    return total;
  };
  return {tokens_of_update(trial), training->masters, update};
}

}  // namespace tenfold::inline lesson_53
