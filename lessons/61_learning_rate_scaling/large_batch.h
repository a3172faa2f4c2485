#pragma once
// A training step of the MLP on a large batch in micro-batches, as the cases have it.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "rate_training.h"

namespace tenfold::inline lesson_61 {

struct LargeBatch : PlannedTraining {
  LargeBatch(const Trial& trial, RateRule rule)
      : PlannedTraining(trial, {.batch = trial.get(mlp::kBatch), .rate = rate_of(trial, rule)}),
        times(trial.get(kTimes)),
        weights(model->parameters()) {}

  /// The workload's rate is that of the large batch by the linear rule.
  static double rate_of(const Trial& trial, RateRule rule) {
    const auto times = static_cast<double>(trial.get(kTimes));
    return trial.get(mlp::kLearningRate) * rate_factor(rule, times) / rate_factor(RateRule::linear, times);
  }

  void optimizer_step() {
    RECORD_USER_SCOPE("update");
    optimizer->step();
  }

  std::vector<torch::Tensor> gradients() const {
    std::vector<torch::Tensor> found;
    for (const torch::Tensor& weight : weights) found.push_back(weight.grad());
    return found;
  }
  void set_gradients(const std::vector<torch::Tensor>& gradients) {
    for (size_t i = 0; i < weights.size(); ++i) weights[i].mutable_grad() = gradients[i];
  }
  /// As backward() does. A copy of the first: grad() may give views, which zero_grad() refuses.
  void add_to_gradients(const std::vector<torch::Tensor>& own) {
    for (size_t i = 0; i < weights.size(); ++i) {
      torch::Tensor& gradient = weights[i].mutable_grad();
      if (gradient.defined()) {
        gradient.add_(own[i]);
      } else {
        gradient = own[i].clone(at::MemoryFormat::Contiguous);
      }
    }
  }
  static void add_to(std::vector<torch::Tensor>& sum, const std::vector<torch::Tensor>& gradients, double factor) {
    const bool first = sum.empty();
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (first) {
        sum.push_back(gradients[i] * factor);
      } else {
        sum[i].add_(gradients[i], factor);
      }
    }
  }

  int64_t times;
  std::vector<torch::Tensor> weights;
};

/// The workload's formula is that of SGD without momentum, whose buffers are as many bytes as the parameters.
inline int64_t large_batch_most_bytes(const Trial& trial) {
  return mlp_most_bytes(trial) + (trial.get(kMomentum) > 0 ? parameter_bytes(mlp_options(trial)) : 0);
}

/// A step that begins with cleared gradients.
inline Step step_of(const std::shared_ptr<LargeBatch>& work, const std::function<torch::Tensor()>& update) {
  return {.items = work->batches.batch() * work->times, .parameters = work->parameters(), .update = [work, update] {
            work->optimizer->zero_grad();
            return update();
          }};
}

}  // namespace tenfold::inline lesson_61
