#pragma once
// What lesson 01 trains: the MLP, in windows of updates. A window is one step to the harness, so that a schedule that
// records a few of its updates is timed with those that it leaves alone.

#include <c10/util/Logging.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>

#include "common/models/mlp.h"

namespace tenfold::inline lesson_01 {

inline constexpr Setting<int64_t> kWindow{"window", 20, "updates in a step of this lesson; schedules repeat after it"};
inline constexpr Setting<int64_t> kRecorded{"recorded", 1, "updates of a window that a schedule records"};

/// One update, with no label but the batch's own.
inline torch::Tensor update(MlpTraining& work) {
  auto [images, labels] = work.next_batch();  // (B, 1, 28, 28), (B)
  work.optimizer->zero_grad();
  torch::Tensor loss = torch::cross_entropy_loss(work.model(images), labels);
  loss.backward();
  work.optimizer->step();
  return loss;
}

/// The same with a label around each part of it and around each layer.
inline torch::Tensor labelled_update(MlpTraining& work) {
  auto [images, labels] = work.next_batch();
  work.optimizer->zero_grad();
  torch::Tensor loss;
  {
    RECORD_USER_SCOPE("forward");
    torch::Tensor hidden = torch::avg_pool2d(images, {4, 4}).flatten(1);  // (B, 49)
    for (auto& layer : *work.model->layers) {
      RECORD_USER_SCOPE("layer");
      hidden = layer.forward(hidden);
    }
    loss = torch::cross_entropy_loss(hidden, labels);
  }
  {
    RECORD_USER_SCOPE("backward");
    loss.backward();
  }
  RECORD_USER_SCOPE("optimizer");
  work.optimizer->step();
  return loss;
}
/// Labels in it: one for each linear layer and each ReLU between them, and three around them.
inline int64_t labels_of_update(int64_t layers) { return 2 * layers - 1 + 3; }

/// A window of updates as a step; its loss is that of the last update. `update_once` trains one update.
inline Step window_of(const Trial& trial, const std::shared_ptr<MlpTraining>& work,
                      const std::function<torch::Tensor()>& update_once) {
  const int64_t window = trial.get(kWindow);
  TORCH_CHECK_VALUE(window > 0, "window=", window, " must be 1 or more");
  return {.items = window * work->batches.batch(), .parameters = work->parameters(), .update = [update_once, window] {
            torch::Tensor loss;
            for (int64_t i = 0; i < window; ++i) loss = update_once();
            return loss;
          }};
}

/// Keeps what Kineto and the CPU's allocator log with every profile off the terminal, unless the environment says what
/// it wants to see: that there is no GPU, and that memory from before the profile is freed.
inline void silence_profilers_logs() {
  setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  if (setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0) == 0) c10::initLogging();
}

/// For the harness: most bytes of a step, as of one update.
inline int64_t window_bytes(const Trial& trial) { return step_peak_bytes(mlp_options(trial), trial.get(mlp::kBatch)); }

}  // namespace tenfold::inline lesson_01
