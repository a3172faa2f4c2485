#pragma once
// The three reference workloads, as they are or slower by a known part of their own time.

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

#include <ctime>

namespace power {

using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// One update on the next batch.
inline Step train(const tenfold::Work& work) {
  return {.items = work.items, .parameters = work.parameters, .update = [work] {
            work.optimizer->zero_grad();
            Tensor loss = work.next_loss();
            loss.backward();
            work.optimizer->step();
            return loss;
          }};
}

/// The step, followed by busy waiting for a part of its own processor time.
inline Step slower(Step step, double part) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  step.update = [update = step.update, part, now] {
    const double begin = now();
    Tensor loss = update();
    const double end = now();
    while (now() < end + part * (end - begin)) {
    }
    return loss;
  };
  return step;
}

}  // namespace power
