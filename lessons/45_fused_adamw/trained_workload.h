#pragma once
// What lesson 45 trains: the MLP, or the GPT where the case says so. Of the workload everything is kept but its
// optimizer.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold {

inline constexpr Setting<std::string> kWorkload{"workload", "mlp", "what is trained", {"mlp", "gpt"}};

/// The settings of both workloads, with a lesson's own. Of the names that they share (layers, width, batch,
/// learning_rate) help shows the MLP's default; the GPT reads its own.
inline std::vector<DeclaredSetting> settings_of_workloads(const std::vector<DeclaredSetting>& more) {
  std::vector<DeclaredSetting> all = mlp_settings(more);
  all.emplace_back(kWorkload);
  for (const DeclaredSetting& setting : gpt_settings()) {
    const auto same_name = [&](const DeclaredSetting& declared) { return declared.name == setting.name; };
    if (std::none_of(all.begin(), all.end(), same_name)) all.push_back(setting);
  }
  return all;
}

/// Most bytes of a training step. AdamW has a second state that SGD with momentum has not, and its update two
/// temporaries of a parameter's size, which may be nearly all of an MLP.
inline int64_t trained_workload_bytes(const Trial& trial) {
  if (trial.get(kWorkload) == "gpt") return gpt_most_bytes(trial) + parameter_bytes(gpt_options(trial));
  const MlpOptions options = mlp_options(trial);
  return step_peak_bytes(options, trial.get(mlp::kBatch)) + 3 * parameter_bytes(options);
}

struct TrainedWorkload {
  int64_t items;
  Parameters parameters;
  std::function<torch::Tensor()> next_loss;  ///< of the next batch
};

inline TrainedWorkload trained_mlp(const Trial& trial) {
  auto work = std::make_shared<MlpTraining>(trial);
  return {work->batches.batch(), work->parameters(), [work] {
            auto [images, labels] = work->next_batch();
            return torch::cross_entropy_loss(work->model->forward(images), labels);
          }};
}

inline TrainedWorkload trained_gpt(const Trial& trial) {
  auto work = std::make_shared<GptTraining>(trial);
  return {work->tokens_per_step(), work->parameters(), [work] {
            auto [ids, targets] = work->next_batch();
            return work->model->loss(work->model->hidden(ids), targets);
          }};
}

inline TrainedWorkload trained_workload(const Trial& trial) {
  return trial.get(kWorkload) == "gpt" ? trained_gpt(trial) : trained_mlp(trial);
}

}  // namespace tenfold
