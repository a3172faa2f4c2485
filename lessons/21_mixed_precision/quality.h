#pragma once
// Does the training end as well with fewer bits? The variants' own updates, many of them, and the loss on held-out
// plays.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_21 {

inline constexpr Setting<int64_t> kUpdates{"updates", 200, "updates of a training"};

/// A model that many updates are affordable for, and a learning rate that makes them as small as they are late in a
/// long training: weights of 16 bits lose them.
inline std::vector<Assignment> small_model_and_updates() {
  return {gpt::kLayers(1, 4, 4),      gpt::kWidth(32, 512, 512), gpt::kHeads(4, 8, 8),
          gpt::kLength(32, 512, 512), gpt::kBatch(8, 16, 16),    gpt::kLearningRate(0.01)};
}

/// Mean loss of a GPT on held-out plays, always in 32 bits, on windows that are the same for every variant and seed.
class HeldOutLoss {
 public:
  explicit HeldOutLoss(const Trial& trial) : model_(gpt_options(trial)), device_(trial.device) {
    const GptOptions& options = model_->options;
    const at::Generator generator = at::detail::createCPUGenerator(/*seed=*/1);
    const torch::Tensor tokens = shakespeare_tokens(options.tokens, /*train=*/false);
    for (int i = 0; i < kBatches; ++i)
      windows_.push_back(sample_batch(tokens, options.batch, options.length, generator));
    model_->to(device_);
    model_->eval();
  }

  /// Of a model with these parameters.
  double operator()(const Parameters& parameters) const {
    const torch::NoGradGuard no_gradients;
    for (auto& own : model_->named_parameters()) own.value().copy_(parameters[own.key()]);
    torch::Tensor sum = torch::zeros({}, device_);
    for (const TextBatch& window : windows_)
      sum += model_->loss(model_->hidden(window.ids.to(device_)), window.targets.to(device_));
    return sum.item<double>() / kBatches;
  }

 private:
  static constexpr int kBatches = 8;

  mutable Gpt model_;
  torch::Device device_;
  std::vector<TextBatch> windows_;
};

/// Trains a GPT with a variant's own step to its end.
inline Learned trained_gpt(const Trial& trial, const std::function<Step(const Trial&)>& build) {
  if (trial.workload != gpt_workload) trial.skip("what it compares is a GPT's loss");
  const Step step = build(trial);
  const HeldOutLoss held_out_loss(trial);
  return train_to_the_end(trial.device, step, {.updates = trial.get(kUpdates), .evaluations = 16},
                          [&] { return held_out_loss(step.parameters); });
}

}  // namespace tenfold::inline lesson_21
