#pragma once
// Weights of 16 bits, without a copy in 32.

#include <torch/torch.h>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "sixteen_bit_adamw.h"

namespace tenfold::inline lesson_33 {

/// The step, after which every weight is what bf16 can hold: rounded by chance, or to nearest.
inline Step with_16_bit_weights(Step step, const Trial& trial, bool by_chance) {
  step.update = [update = step.update, parameters = step.parameters, by_chance,
                 generator = own_generator(trial.device, trial.seed)] {
    torch::Tensor loss = update();
    for (const auto& parameter : parameters) {
      torch::Tensor weights = parameter.value().detach();  // the same memory
      if (by_chance) {
        round_by_chance(weights, generator);
      } else {
        weights.copy_(weights.to(torch::kBFloat16));
      }
    }
    return loss;
  };
  return step;
}

}  // namespace tenfold::inline lesson_33
