#pragma once
// A step of AdamW for a list of tensors: operator by operator, each for all tensors (foreach), and as ATen's one
// operator.

#include <torch/torch.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/adamw/adamw.h"

namespace tenfold::inline lesson_45 {

/// Parameters that have gradients, and the optimizer state of each: averages of the gradient and of its square, zeros
/// at first.
struct AdamWState {
  explicit AdamWState(std::vector<torch::Tensor> from) : parameters(std::move(from)) {
    for (const torch::Tensor& parameter : parameters) {
      averages.push_back(torch::zeros_like(parameter));
      square_averages.push_back(torch::zeros_like(parameter));
      steps.push_back(torch::zeros({}, parameter.options()));
    }
  }
  std::vector<torch::Tensor> gradients() const {
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& parameter : parameters) all.push_back(parameter.grad());
    return all;
  }
  std::vector<torch::Tensor> parameters, averages, square_averages;
  std::vector<torch::Tensor> steps;  ///< step numbers, on the device: ATen's kernel wants one for each parameter
  int64_t step = 0;
};

/// The operators of torch::optim::AdamW, each called once for all tensors. On a GPU such a call is a few launches,
/// however many tensors there are. The values go through memory as often as before, and all denominators are live at
/// once.
inline void foreach_adamw(AdamWState& state, const kernels::AdamWSettings& s) {
  const torch::NoGradGuard no_grad;
  const auto step = static_cast<double>(++state.step);
  const double correction1 = 1 - std::pow(s.beta1, step), correction2 = 1 - std::pow(s.beta2, step);
  const std::vector<torch::Tensor> gradients = state.gradients();
  at::_foreach_mul_(state.parameters, 1 - s.learning_rate * s.weight_decay);
  at::_foreach_mul_(state.averages, s.beta1);
  at::_foreach_add_(state.averages, gradients, 1 - s.beta1);
  at::_foreach_mul_(state.square_averages, s.beta2);
  at::_foreach_addcmul_(state.square_averages, gradients, gradients, 1 - s.beta2);
  std::vector<torch::Tensor> denominators = at::_foreach_sqrt(state.square_averages);
  at::_foreach_div_(denominators, std::sqrt(correction2));
  at::_foreach_add_(denominators, s.epsilon);
  at::_foreach_addcdiv_(state.parameters, state.averages, denominators, -s.learning_rate / correction1);
}

/// Values of each parameter that foreach_adamw()'s calls write in place, which a count of inputs and returned tensors
/// does not see.
inline constexpr int kForeachWrites = 8;

/// One operator: each value's parameter, averages and gradient are read once, and all of the formula is done in
/// registers.
inline void fused_adamw(AdamWState& state, const kernels::AdamWSettings& s) {
  const torch::NoGradGuard no_grad;
  at::_foreach_add_(state.steps, 1);
  at::_fused_adamw_(state.parameters, state.gradients(), state.averages, state.square_averages, /*max_exp_avg_sqs=*/{},
                    state.steps, s.learning_rate, s.beta1, s.beta2, s.weight_decay, s.epsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

/// The same for fused_adamw(), without the step numbers.
inline constexpr int kFusedWrites = 3;

}  // namespace tenfold::inline lesson_45
