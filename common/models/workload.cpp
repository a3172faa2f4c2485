#include "common/models/workload.h"

#include <algorithm>

#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold {

namespace {

/// Of images with labels.
template <class Training>
Workload image_workload(const Trial& trial) {
  auto training = std::make_shared<Training>(trial);
  const auto next_logits = [training] {
    auto [images, labels] = training->next_batch();  // (B, 1, 28, 28), (B)
    return std::pair(training->model->forward(images), labels);
  };
  return {.items = training->batches.batch(),
          .parameters = training->parameters(),
          .optimizer = {training, training->optimizer.get()},
          .next_logits = next_logits,
          .next_loss = [next_logits] {
            const auto [logits, labels] = next_logits();
            return torch::cross_entropy_loss(logits.to(torch::kFloat), labels);
          }};
}

Workload gpt_workload(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  return {.items = training->tokens_per_step(),
          .parameters = training->parameters(),
          .optimizer = {training, training->optimizer.get()},
          .next_logits =
              [training] {
                auto [ids, targets] = training->next_batch();  // (B, T) each
                return std::pair(training->model->forward(ids).flatten(0, 1), targets.flatten());
              },
          .next_loss =
              [training] {
                auto [ids, targets] = training->next_batch();
                return training->model->loss(training->model->hidden(ids), targets);
              }};
}

[[noreturn]] void refuse(const std::string& name) {
  TORCH_CHECK_VALUE(false, "no workload '", name, "': convnet, gpt or mlp");
}

}  // namespace

Workload make_workload(const Trial& trial, const std::string& name) {
  if (name == "convnet") return image_workload<FashionConvNet>(trial);
  if (name == "mlp") return image_workload<MlpTraining>(trial);
  if (name == "gpt") return gpt_workload(trial);
  refuse(name);
}

int64_t workload_bytes(const Trial& trial, const std::string& name) {
  if (name == "convnet") return convnet_most_bytes(trial);
  if (name == "mlp") return step_peak_bytes(mlp_options(trial), trial.get(mlp::kBatch));
  if (name == "gpt") return gpt_most_bytes(trial);
  refuse(name);
}

std::vector<DeclaredSetting> settings_of_both(std::vector<DeclaredSetting> first,
                                              const std::vector<DeclaredSetting>& second) {
  for (const DeclaredSetting& setting : second) {
    const auto same = std::ranges::find(first, setting.name, &DeclaredSetting::name);
    if (same == first.end()) {
      first.push_back(setting);
    } else {
      same->in_others.push_back(setting);
    }
  }
  return first;
}

}  // namespace tenfold
