#pragma once
// What a missing zero_grad() does under a gradient scaler: counted, against the same training with it.
//
// The scaler divides .grad by its scale before every update. Gradients that were never cleared are divided again each
// time, so that the last update's come back 65536 times smaller: hardly seen. An infinite one stays infinite, however
// often it is divided: from the first overflow on every update is skipped.

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "autocast.h"
#include "grad_scaler.h"

namespace tenfold::inline lesson_21 {

/// A training in 16 bits: in fp16 with a scaler, or in bf16, which needs none.
struct SixteenBits {
  bool scaler = true;
  double scale = 65536;
  bool clear = true;  ///< gradients, before each update
};

struct Trained {
  std::vector<torch::Tensor> start, finish;  ///< parameters
  int64_t skipped = 0;                       ///< updates, because a gradient was not finite
};

inline Trained train(const Trial& trial, const SixteenBits& how, int64_t updates) {
  torch::manual_seed(trial.seed);
  const Work work = trial.workload.make(trial);
  GradScaler scaler({.initial_scale = how.scale});
  const auto copied = [&] {
    std::vector<torch::Tensor> copies;
    for (const auto& parameter : work.parameters) copies.push_back(parameter.value().detach().clone());
    return copies;
  };
  Trained trained{.start = copied()};
  for (int64_t i = 0; i < updates; ++i) {
    if (how.clear) work.optimizer->zero_grad();
    torch::Tensor loss;
    {
      const Autocast scope(trial.device.type(), how.scaler ? torch::kHalf : torch::kBFloat16);
      loss = work.next_loss();
    }
    if (how.scaler) {
      scaler.scale(loss).backward();
      scaler.step(*work.optimizer);
      scaler.update();
    } else {
      loss.backward();
      work.optimizer->step();
    }
  }
  trained.finish = copied();
  trained.skipped = scaler.skipped_steps();
  return trained;
}

/// How far the parameters are from the right ones', over the way that those went.
inline double distance(const Trained& right, const Trained& other) {
  double apart = 0, way = 0;
  for (size_t i = 0; i < right.finish.size(); ++i) {
    apart += (other.finish[i] - right.finish[i]).to(torch::kDouble).square().sum().item<double>();
    way += (right.finish[i] - right.start[i]).to(torch::kDouble).square().sum().item<double>();
  }
  return std::sqrt(apart / way);
}

/// Notes what becomes of a training when its gradients are never cleared, and what it would have been.
inline void note_never_cleared(const Trial& trial, SixteenBits how, int64_t updates) {
  const Trained right = train(trial, how, updates);
  how.clear = false;
  const Trained wrong = train(trial, how, updates);
  trial.note("deviation", 100 * distance(right, wrong), "%");
  trial.note("skipped with zero_grad", static_cast<double>(right.skipped), "updates");
  trial.note("skipped without", static_cast<double>(wrong.skipped), "updates");
}

}  // namespace tenfold::inline lesson_21
