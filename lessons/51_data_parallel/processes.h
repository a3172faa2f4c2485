#pragma once
// Lesson 51's step with a process for each device: DDP, and DataParallel's exchanges between such processes.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "common/models/momentum_sgd.h"
#include "lessons/52_ddp/ddp.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "rank_exchange.h"
#include "settings.h"

namespace tenfold::inline lesson_51 {

inline torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets) {  // (B, T, V), (B, T)
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
}

/// Rank 0's parameters and gradients on every rank: the others have old ones, and none.
inline Gathered of_rank_0(const torch::nn::Module& model, bool updated, c10d::ProcessGroup& group) {
  Gathered whole;
  for (const auto& item : model.named_parameters()) {
    const torch::Tensor& parameter = item.value();
    const torch::Tensor value = parameter.detach().clone();
    torch::Tensor gradient;
    if (updated) gradient = parameter.grad().defined() ? parameter.grad().clone() : torch::zeros_like(value);
    broadcast_from_rank_0(updated ? std::vector{value, gradient} : std::vector{value}, group);
    whole.parameters.insert(item.key(), value);
    whole.gradients.insert(item.key(), gradient);
  }
  return whole;
}

/// A process for each device: every rank has a model, its rows of the batch, an optimizer and its state.
inline Step ddp(const Trial& trial) {
  needs_two_ranks(trial);
  share_of_rank(trial, gpt::kBatch);  // or this is skipped
  auto training = std::make_shared<GptTraining>(trial);
  auto parallel = std::make_shared<DistributedDataParallel>(*training->model, trial.group, bucket_sizes(trial));
  auto update = [training, parallel, rank = trial.rank, ranks = trial.world_size] {
    const auto [ids, targets] = training->next_batch();  // all ranks draw the same; lesson 52 draws a rank's part alone
    training->optimizer->zero_grad();
    torch::Tensor loss = training->model->loss(training->model->hidden(local_batch(ids, rank, ranks)),
                                               local_batch(targets, rank, ranks));
    loss.backward();
    parallel->finish();
    optimizer_step(*training->optimizer);
    return loss.detach();
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// DataParallel's exchanges between processes: rank 0 is the first device.
inline Step from_rank_0(const Trial& trial) {
  needs_two_ranks(trial);
  const std::vector<int64_t> own_rows = {share_of_rank(trial, gpt::kBatch), trial.get(gpt::kLength)};
  auto training = std::make_shared<GptTraining>(trial);
  auto exchange = std::make_shared<RankExchange>(training->model->parameters(), trial.group, bucket_sizes(trial));
  const auto ids_options = torch::dtype(torch::kLong).device(trial.device);
  auto updated = std::make_shared<bool>(false);
  auto update = [=, first = trial.rank == 0] {
    torch::Tensor ids, targets, loss;
    if (first) std::tie(ids, targets) = training->next_batch();  // (B, T) each
    training->optimizer->zero_grad();
    exchange->broadcast_parameters();
    torch::Tensor own = training->model->forward(exchange->scatter(ids, own_rows, ids_options));  // (B / N, T, V)
    torch::Tensor logits = exchange->gather(own);                                                 // (B, T, V)
    if (first) {
      own = torch::Tensor();
      loss = cross_entropy(std::exchange(logits, {}), targets);
      loss.backward();
    } else {
      own.backward(exchange->scatter({}, own.sizes().vec(), own.options().requires_grad(false)));
    }
    exchange->reduce_gradients();
    if (first) optimizer_step(*training->optimizer);
    *updated = true;
    return first ? loss.detach() : loss;
  };
  return {.items = training->tokens_per_step(),
          .parameters = training->parameters(),
          .update = update,
          .gather = [=, group = trial.group] { return of_rank_0(*training->model, *updated, *group); }};
}

}  // namespace tenfold::inline lesson_51
