#pragma once
// What lesson 21 trains: the GPT, or the MLP of small layers.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold {

inline constexpr Setting<std::string> kModel{
    "model", "gpt", "what is trained; the mlp has sizes of its own", {"gpt", "mlp"}};

struct Workload {
  int64_t items;
  Parameters parameters;
  torch::optim::Optimizer* optimizer;
  std::function<torch::Tensor()> next_loss;  ///< mean loss of the next batch; keeps model and optimizer alive
};

/// Most bytes of a training step in 32 bits.
inline int64_t workload_bytes(const Trial& trial) {
  if (trial.get(kModel) == "mlp") return step_peak_bytes(MlpOptions{}, mlp::kBatch.value.at(trial.size));
  return gpt_most_bytes(trial);
}

inline Workload make_workload(const Trial& trial) {
  if (trial.get(kModel) == "mlp") {
    // Not from the settings: gpt and mlp have some of the same names.
    auto training = std::make_shared<MlpTraining>(trial, MlpOptions{}, mlp::kBatch.value.at(trial.size));
    return {training->batches.batch(), training->parameters(), training->optimizer.get(), [training] {
              auto [images, labels] = training->next_batch();
              return torch::cross_entropy_loss(training->model->forward(images).to(torch::kFloat), labels);
            }};
  }
  auto training = std::make_shared<GptTraining>(trial);
  return {training->tokens_per_step(), training->parameters(), training->optimizer.get(), [training] {
            auto [ids, targets] = training->next_batch();
            return training->model->loss(training->model->hidden(ids), targets);
          }};
}

}  // namespace tenfold
