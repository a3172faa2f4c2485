#pragma once
// The three workloads as they are, whatever the settings: the same work on every machine that runs the same size.

#include <torch/torch.h>

#include <memory>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold {

inline constexpr Setting<std::string> kWorkload{
    "workload", "convnet", "which workload is trained", {"convnet", "gpt", "mlp"}};

/// A training step of images and labels: `work` has next_batch, model and optimizer.
template <class Work>
Step image_step(const std::shared_ptr<Work>& work) {
  return {.items = work->batches.batch(), .parameters = work->parameters(), .update = [work] {
            auto [images, labels] = work->next_batch();  // (B, 1, 28, 28), (B)
            work->optimizer->zero_grad();
            torch::Tensor loss = torch::cross_entropy_loss(work->model(images), labels);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// Most bytes of the workload's training step.
inline int64_t yardstick_bytes(const Trial& trial) {
  const std::string workload = trial.get(kWorkload);
  if (workload == "convnet") return convnet_most_bytes(trial);
  if (workload == "mlp") return step_peak_bytes(MlpOptions{}, mlp::kBatch.value.cpu);
  return step_peak_bytes(gpt_options(trial.size));
}

/// The workload's training step at the trial's size.
inline Step yardstick(const Trial& trial) {
  const std::string workload = trial.get(kWorkload);
  if (workload == "convnet") return image_step(std::make_shared<FashionConvNet>(trial));
  if (workload == "mlp") return image_step(std::make_shared<MlpTraining>(trial, MlpOptions{}, mlp::kBatch.value.cpu));
  auto work = std::make_shared<GptTraining>(trial, gpt_options(trial.size));
  return {.items = work->tokens_per_step(), .parameters = work->parameters(), .update = [work] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();
            torch::Tensor loss = work->model->loss(work->model->hidden(ids), targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

}  // namespace tenfold
