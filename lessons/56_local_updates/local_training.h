#pragma once
// What a rank of lesson 56 trains: lesson 52's GPT on the rank's own sequences, as a flat model.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "flat_model.h"
#include "lessons/52_ddp/rank_training.h"
#include "settings.h"

namespace tenfold::inline lesson_56 {

struct LocalTraining : RankTraining {
  /// Ranks begin with the same weights, the trial's seed's, and read the sequences of `shard`.
  LocalTraining(const Trial& trial, const Shard& shard)
      : RankTraining(trial, shard, share_of_rank(trial, gpt::kBatch), /*parts=*/1),
        flat(flat_model(model->parameters())),
        group(trial.group),
        inner_updates(trial.get(kInnerUpdates)) {
    optimizer = optimizer_of(trial, model->parameters());
  }

  /// Gradients of this rank's next sequences, and their loss.
  torch::Tensor backward() {
    const auto parts = next_parts();
    flat.gradients.zero_();
    torch::Tensor loss = forward_backward(parts[0]);
    require_attached(flat, model->parameters());
    return loss;
  }

  /// The whole model, which every rank has after a round, and the mean of the ranks' last gradients. Throws c10::Error
  /// on all ranks when their models differ in a bit.
  Gathered whole() const {
    const torch::Tensor gradients = flat.gradients.clone();
    if (group) {
      const torch::Tensor bits = flat.values.view(torch::kInt);
      TORCH_CHECK(torch::equal(over_ranks(bits, c10d::ReduceOp::MIN), over_ranks(bits, c10d::ReduceOp::MAX)),
                  "does not agree with the other ranks: their parameters differ after a round");
      mean_over_ranks(gradients, group);
    }
    Gathered all;
    const std::vector<int64_t> begins = flat_begins(parameters().values());
    for (const auto& parameter : parameters()) {
      const torch::Tensor& value = parameter.value();
      const int64_t begin = begins[all.parameters.size()];
      all.parameters.insert(parameter.key(), value);
      all.gradients.insert(parameter.key(), gradients.narrow(0, begin, value.numel()).view(value.sizes()));
    }
    return all;
  }

  FlatModel flat;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  int64_t inner_updates;

 private:
  torch::Tensor over_ranks(const torch::Tensor& values, c10d::ReduceOp::RedOpType operation) const {
    std::vector<torch::Tensor> tensors{values.clone()};
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    group->allreduce(tensors, options)->wait();
    return tensors[0];
  }
};

/// A step is a round of updates.
inline Step step_of(const Trial& trial, const std::shared_ptr<LocalTraining>& training,
                    std::function<torch::Tensor()> update) {
  return {.items = trial.get(kInnerUpdates) * trial.get(gpt::kBatch) * trial.get(gpt::kLength),
          .parameters = training->parameters(),
          .update = std::move(update),
          .gather = [training] { return training->whole(); }};
}

}  // namespace tenfold::inline lesson_56
