#pragma once
// What lesson 20 trains: the convnet, or an MLP whose model states are larger than its activations. The batch is the
// caller's.

#include <c10/util/ScopeExit.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/mlp.h"

namespace tenfold::inline lesson_20 {

inline constexpr Setting<int64_t> kBudget{"budget_mib", {16, 1024, 8192}, "MiB of memory that a search may use"};

/// A model, its optimizer and its updates, on whatever batch comes.
class FashionTraining {
 public:
  explicit FashionTraining(const Trial& trial) {
    const auto keep = [this](const auto& work) {
      parameters = work->parameters();
      optimizer = work->optimizer.get();
      forward = [work](const torch::Tensor& images) { return work->model->forward(images); };
    };
    if (trial.workload == convnet_workload) {
      keep(std::make_shared<ConvNetTraining>(convnet_options(trial), trial.device));
    } else {
      keep(std::make_shared<MlpTraining>(trial, mlp_options(trial), /*batch=*/1));
    }
  }

  /// One update: (B, 1, 28, 28) and (B).
  torch::Tensor update(FashionBatches& batches) {
    auto [images, labels] = batches.next();
    optimizer->zero_grad();
    torch::Tensor loss = torch::cross_entropy_loss(forward(images), labels);
    loss.backward();
    optimizer->step();
    return loss;
  }

  Parameters parameters;
  torch::optim::Optimizer* optimizer = nullptr;                // kept alive by `forward`
  std::function<torch::Tensor(const torch::Tensor&)> forward;  ///< (B, 1, 28, 28) -> (B, 10)
};

/// The model of a search, the same for all its tries: to build one of 400 million parameters takes seconds of a CPU's
/// thread. What a try leaves are other values, which need no more memory; gradients and optimizer state are dropped.
class TriedTraining {
 public:
  explicit TriedTraining(const Trial& trial) : trial_(trial) {}

  /// `updates` as of a fresh model, with this batch. Built by the first try, so that it is in the search's budget.
  void train(int64_t batch, int updates) {
    if (!training_) training_.emplace(trial_);
    const auto forget = c10::make_scope_exit([this] {
      training_->optimizer->zero_grad();
      training_->optimizer->state().clear();
    });
    FashionBatches batches(trial_, batch);
    for (int i = 0; i < updates; ++i) training_->update(batches);
  }

 private:
  Trial trial_;
  std::optional<FashionTraining> training_;
};

/// A fresh model that trains with this batch.
inline Step training_step(const Trial& trial, int64_t batch) {
  auto training = std::make_shared<FashionTraining>(trial);
  auto batches = std::make_shared<FashionBatches>(trial, batch);
  return {.items = batch, .parameters = training->parameters, .update = [training, batches] {
            return training->update(*batches);
          }};
}

/// Most bytes of such a step, by formula.
inline int64_t most_bytes_of(const Trial& trial, int64_t batch) {
  return trial.workload == convnet_workload ? step_peak_bytes(convnet_options(trial), batch, trial.device)
                                            : step_peak_bytes(mlp_options(trial), batch);
}

/// Bytes that a search may use. Batches that fill a GPU's budget would take a CPU hours to train.
inline int64_t budget_bytes(const Trial& trial) {
  const int64_t bytes = trial.get(kBudget) << 20;
  if (trial.device.is_cpu() && trial.size != Size::cpu) trial.skip("searches a budget of a GPU's size on a GPU only");
  return bytes;
}

/// The largest batch whose step needs at most so many bytes by formula; 0 when none does. The formula is the largest of
/// a few lines, fixed + batch x bytes of a sample, one for each moment that may be the highest.
inline int64_t largest_by_formula(const Trial& trial, int64_t bytes) {
  int64_t fits = 0, exceeds = 1;
  while (most_bytes_of(trial, exceeds) <= bytes) exceeds *= 2;
  while (exceeds - fits > 1) {
    const int64_t middle = fits + (exceeds - fits) / 2;
    (most_bytes_of(trial, middle) <= bytes ? fits : exceeds) = middle;
  }
  return fits;
}

}  // namespace tenfold::inline lesson_20
