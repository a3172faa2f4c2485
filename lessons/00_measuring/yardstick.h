#pragma once
// A workload's training step as it is: the same work on every machine that runs the same size.

#include <torch/torch.h>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold::inline lesson_00 {

inline Step plain_step(const Work& work) {
  return {.items = work.items, .parameters = work.parameters, .update = [work] {
            work.optimizer->zero_grad();
            torch::Tensor loss = work.next_loss();
            loss.backward();
            work.optimizer->step();
            return loss;
          }};
}

}  // namespace tenfold::inline lesson_00
