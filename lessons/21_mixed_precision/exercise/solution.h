#pragma once
// The kept solution of exercise 21; CI proves that it passes.
#include <torch/torch.h>

#include <cstdint>
#include <vector>

struct LossScale {
  double scale = 65536;
  int64_t good_updates = 0;  ///< in a row, since the scale last changed
};

/// The scale of the next update. After an update with an infinite gradient the scale halves and the count starts again;
/// after `interval` good updates in a row it doubles, and the count starts again.
inline LossScale next_scale(LossScale now, bool found_infinity, int64_t interval) {
  if (found_infinity) return {now.scale / 2, 0};
  if (now.good_updates + 1 == interval) return {now.scale * 2, 0};
  return {now.scale, now.good_updates + 1};
}

/// Ends an update whose backward pass ran from loss * now.scale: divides the parameters' gradients, makes the
/// optimizer's step unless one of them is not finite, and returns the scale of the next update.
inline LossScale scaled_update(const std::vector<torch::Tensor>& parameters, torch::optim::Optimizer& optimizer,
                               LossScale now, int64_t interval) {
  const torch::NoGradGuard no_grad;
  bool finite = true;
  for (const torch::Tensor& parameter : parameters) {
    torch::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    gradient /= now.scale;
    finite = finite && torch::isfinite(gradient).all().item<bool>();
  }
  if (finite) optimizer.step();
  return next_scale(now, !finite, interval);
}
