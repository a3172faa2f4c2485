#pragma once
// What a rank of lesson 50 trains: its part of the batch, with all gradients in one flat tensor.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/measure/rank_share.h"
#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/rank_training.h"
#include "message_costs.h"

namespace tenfold::inline lesson_50 {

/// One tensor of zeros whose parts are from now on the parameters' .grad(): backward() adds to them where they lie. Do
/// not call zero_grad(), which would drop them; zero the tensor.
inline torch::Tensor flat_gradients(const std::vector<torch::Tensor>& parameters) {
  int64_t numbers = 0;
  for (const torch::Tensor& parameter : parameters) numbers += parameter.numel();
  torch::Tensor flat = torch::zeros({numbers}, parameters.at(0).options().requires_grad(false));
  int64_t begin = 0;
  for (const torch::Tensor& parameter : parameters) {
    parameter.mutable_grad() = flat.narrow(0, begin, parameter.numel()).view(parameter.sizes());
    begin += parameter.numel();
  }
  return flat;
}

/// c10d's own.
inline void c10d_all_reduce(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> tensors{tensor};
  group.allreduce(tensors)->wait();
}

/// The gradients are there during the whole step.
inline int64_t flat_most_bytes(const Trial& trial) {
  return gpt_most_bytes(trial) + parameter_bytes(gpt_options(trial));
}

/// A rank's training loop. After backward(), `mean` leaves in the gradients their mean over the ranks; one rank alone
/// has nobody to ask.
inline Step train_in_parallel(const Trial& trial, const AllReduce& mean) {
  // All ranks draw the same weights from the trial's seed, and each its own sequences.
  const int64_t rows = share_of_rank(trial, gpt::kBatch);
  auto training = std::make_shared<RankTraining>(trial, own_shard(trial), rows, /*parts=*/1);
  const torch::Tensor gradients = flat_gradients(training->model->parameters());
  auto update = [training, gradients, mean, group = trial.group] {
    const auto parts = training->next_parts();
    gradients.zero_();
    torch::Tensor loss = training->forward_backward(parts[0]);
    if (group) {
      RECORD_USER_SCOPE("communication");
      mean(gradients, *group);
    }
    training->optimizer_step();
    return loss;
  };
  return {trial.get(gpt::kBatch) * trial.get(gpt::kLength), training->parameters(), update};
}

}  // namespace tenfold::inline lesson_50
