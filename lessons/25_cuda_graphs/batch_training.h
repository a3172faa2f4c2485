#pragma once
// What lesson 25 trains: batch, loss and update apart from each other, since a batch is made outside of a graph.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capturable_adamw.h"
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold::inline lesson_25 {

inline constexpr Setting<std::string> kOptimizer{
    "optimizer", "sgd", "sgd, with the workload's learning rate, or adamw, with PyTorch's defaults", {"sgd", "adamw"}};

using Batch = std::vector<torch::Tensor>;

/// Copies share the model and its data.
struct BatchTraining {
  int64_t items = 0;
  Parameters parameters;
  std::function<Batch()> next_batch;  ///< inputs and targets, on the trial's device
  std::function<torch::Tensor(const Batch&)> loss;
  std::function<void()> update;             ///< by LibTorch's optimizer
  std::function<void()> capturable_update;  ///< the same, without a number of the host that changes

  /// The loss of a batch and its gradients, which are added to those that are there.
  torch::Tensor differentiate(const Batch& batch) const {
    RECORD_USER_SCOPE("loss");
    torch::Tensor mean = loss(batch);
    mean.backward();
    return mean;
  }
  void drop_gradients() const {
    for (const auto& parameter : parameters) parameter.value().mutable_grad() = torch::Tensor();
  }
  /// Gradients that keep their addresses; none before the first step.
  void zero_gradients() const {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> all;
    for (const auto& parameter : parameters) {
      if (parameter.value().grad().defined()) all.push_back(parameter.value().grad());
    }
    if (!all.empty()) at::_foreach_zero_(all);  // a launch or two for all of them
  }
};

namespace batch_training_detail {

template <class Training>
BatchTraining parts_of(const std::shared_ptr<Training>& training,
                       const std::function<torch::Tensor(const Batch&)>& loss) {
  return {.parameters = training->parameters(),
          .next_batch =
              [training] {
                auto [inputs, targets] = training->next_batch();
                return Batch{inputs, targets};
              },
          .loss = loss,
          .update = [training] { training->optimizer->step(); },
          .capturable_update = [training] { training->optimizer->step(); }};
}

}  // namespace batch_training_detail

/// The mlp or the gpt, with the optimizer that the setting names.
inline BatchTraining batch_training(const Trial& trial) {
  using namespace batch_training_detail;
  BatchTraining parts;
  if (trial.workload == gpt_workload) {
    const auto work = std::make_shared<GptTraining>(trial);
    parts = parts_of(work, [work](const Batch& batch) {
      return work->model->loss(work->model->hidden(batch[0]), batch[1]);  // (B, T) each
    });
    parts.items = work->tokens_per_step();
  } else {
    const auto work = std::make_shared<MlpTraining>(trial);
    parts = parts_of(work, [work](const Batch& batch) {
      return torch::cross_entropy_loss(work->model->forward(batch[0]), batch[1]);  // (B, 1, 28, 28), (B)
    });
    parts.items = work->batches.batch();
  }
  if (trial.get(kOptimizer) == "adamw") {
    const torch::optim::AdamWOptions options;
    const std::vector<torch::Tensor> all = parts.parameters.values();
    // Made when they are first asked for: each has a state as large as the parameters, twice.
    parts.update = [all, options, optimizer = std::shared_ptr<torch::optim::AdamW>()]() mutable {
      if (!optimizer) optimizer = std::make_shared<torch::optim::AdamW>(all, options);
      optimizer->step();
    };
    parts.capturable_update = [all, options, optimizer = std::shared_ptr<CapturableAdamW>()]() mutable {
      if (!optimizer) optimizer = std::make_shared<CapturableAdamW>(all, options);
      optimizer->step();
    };
  }
  return parts;
}

/// Most bytes of the baseline's step. AdamW has a second state that SGD with momentum has not, and its update two
/// temporaries of a parameter's size.
inline int64_t graphs_most_bytes(const Trial& trial) {
  const int64_t least = trial.workload.most_bytes(trial);
  if (trial.get(kOptimizer) == "sgd") return least;
  return least + 3 * (trial.workload == gpt_workload ? parameter_bytes(gpt_options(trial))
                                                     : parameter_bytes(mlp_options(trial)));
}

}  // namespace tenfold::inline lesson_25
