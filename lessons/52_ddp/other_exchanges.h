#pragma once
// Other ways to exchange gradients, to compare ddp.h with: after backward(), by PyTorch's own engine, and not at all.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "common/measure/rank_share.h"
#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "gradient_buckets.h"
#include "pytorch_reducer.h"
#include "rank_training.h"
#include "settings.h"

namespace tenfold::inline lesson_52 {

/// A model that equals rank 0's, its optimizer, and this rank's batches.
inline std::shared_ptr<RankTraining> replica(const Trial& trial) {
  auto training = std::make_shared<RankTraining>(trial, own_shard(trial), rows_of_rank(trial), /*parts=*/1);
  if (trial.group) broadcast_from_rank_0(training->model->parameters(), *trial.group);
  return training;
}

/// One rank's step. After backward(), `average` turns its gradients into those of the global batch; one rank's are.
inline Step average_afterwards(
    const Trial& trial, const std::shared_ptr<RankTraining>& training, const std::function<void()>& average,
    const std::function<void()>& prepare = [] {}) {
  auto update = [training, average, prepare, exchanges = trial.group.defined()] {
    const auto parts = training->next_parts();
    training->optimizer->zero_grad();
    prepare();
    torch::Tensor loss = training->forward_backward(parts[0]);
    if (exchanges) average();
    training->optimizer_step();
    return loss;
  };
  return {tokens_of_update(trial), training->parameters(), update};
}

inline Step naive(const Trial& trial) {
  const auto training = replica(trial);
  return average_afterwards(trial, training, [parameters = training->model->parameters(), group = trial.group] {
    average_each(parameters, *group);
  });
}

inline Step bucketed(const Trial& trial) {
  const auto training = replica(trial);
  const std::vector<torch::Tensor> parameters = training->model->parameters();
  const auto buckets = assign_buckets(parameters, bucket_sizes(trial));
  return average_afterwards(
      trial, training, [parameters, buckets, group = trial.group] { average_in_buckets(parameters, buckets, *group); });
}

/// A trap: every rank goes its own way. Losses look fine; there are now two different models.
inline Step no_all_reduce(const Trial& trial) {
  needs_two_ranks(trial);
  return average_afterwards(trial, replica(trial), [] {});
}

/// PyTorch's own engine: its all-reduces overlap with backward().
inline Step reducer_of_pytorch(const Trial& trial) {
  needs_two_ranks(trial);
  const auto training = replica(trial);
  auto reducer = pytorch_reducer(training->model->parameters(), trial.group, bucket_sizes(trial));
  return average_afterwards(trial, training, [] {}, [reducer] { prepare_step(*reducer); });  // backward() has averaged
}

}  // namespace tenfold::inline lesson_52
