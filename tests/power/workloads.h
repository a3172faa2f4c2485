#pragma once
// The three reference workloads, as they are or slower by a known part of their own time.

#include <tenfold/gpt.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>

#include <ctime>

namespace power {

using tenfold::Step;
using tenfold::Trial;

enum Workload { convnet = 0, gpt = 1, mlp = 2 };

template <class Training>
Step train(const Trial& trial, int64_t items, auto loss_of) {
  auto work = std::make_shared<Training>(trial);
  return {.items = items, .parameters = work->parameters(), .fn = [work, loss_of] {
            auto [inputs, targets] = work->next_batch();
            work->optimizer->zero_grad();
            torch::Tensor loss = loss_of(*work, inputs, targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// A workload by its number.
inline Step train(const Trial& trial, int64_t workload) {
  const auto classes = [](auto& work, const torch::Tensor& images, const torch::Tensor& labels) {
    return torch::cross_entropy_loss(work.model(images), labels);
  };
  if (workload == convnet) return train<tenfold::ConvNetTraining>(trial, trial.get("batch", 64), classes);
  if (workload == mlp) return train<tenfold::MlpTraining>(trial, trial.get("batch", 32), classes);
  return train<tenfold::GptTraining>(trial, 1, [](tenfold::GptTraining& work, const torch::Tensor& ids, const torch::Tensor& targets) {
    torch::Tensor h = work.model->embed(ids);
    for (auto& block : work.model->blocks) h = block(h);
    return work.model->loss(h, targets);
  });
}

/// The step, followed by busy waiting for a part of its own processor time.
inline Step slower(Step step, double part) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  step.fn = [fn = step.fn, part, now] {
    const double begin = now();
    torch::Tensor loss = fn();
    const double end = now();
    while (now() < end + part * (end - begin)) {
    }
    return loss;
  };
  return step;
}

}  // namespace power
