#pragma once
// Training loops around the gradient scaler: a right one in 32 bits, and three with one line wrong or missing.

#include <torch/torch.h>

#include <memory>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "grad_scaler.h"

namespace tenfold::inline lesson_21 {

/// The scaler without fp16. Its scale is a power of two, so it changes no digit of a gradient: all that goes wrong in a
/// loop around it shows, where the tolerance that fp16 needs would cover it.
inline Step scaled_fp32(const Trial& trial, double scale, bool clear) {
  const Work work = trial.workload.make(trial);
  auto scaler = std::make_shared<GradScaler>(GradScalerOptions{.initial_scale = scale});
  auto update = [work, scaler, clear] {
    if (clear) work.optimizer->zero_grad();
    torch::Tensor loss = work.next_loss();
    scaler->scale(loss).backward();
    scaler->step(*work.optimizer);
    scaler->update();
    return loss;
  };
  return {work.items, work.parameters, update};
}

/// A trap: no zero_grad(). Every update adds all gradients since the first.
inline Step never_cleared(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  auto update = [work] {
    torch::Tensor loss = work.next_loss();  // wrong: before it, work.optimizer->zero_grad()
    loss.backward();
    work.optimizer->step();
    return loss;
  };
  return {work.items, work.parameters, update};
}

/// A trap: the loss is scaled, and the optimizer gets the gradients as they are, 65536 times too large.
inline Step never_unscaled(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  auto scaler = std::make_shared<GradScaler>();
  auto update = [work, scaler] {
    work.optimizer->zero_grad();
    torch::Tensor loss = work.next_loss();
    scaler->scale(loss).backward();
    work.optimizer->step();  // wrong: scaler->step(*work.optimizer)
    return loss;
  };
  return {work.items, work.parameters, update};
}

}  // namespace tenfold::inline lesson_21
