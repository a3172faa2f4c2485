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

inline constexpr tenfold::Setting<std::string> kWorkload{
    "workload", "gpt", "what is trained", {"convnet", "gpt", "mlp"}};

/// One update on the next batch of whatever is trained; loss_of(inputs, targets) is its forward pass.
template <class Training, class LossOf>
Step train(const std::shared_ptr<Training>& training, int64_t items, LossOf loss_of) {
  const auto update = [training, loss_of] {
    auto [inputs, targets] = training->next_batch();
    training->optimizer->zero_grad();
    Tensor loss = loss_of(inputs, targets);
    loss.backward();
    training->optimizer->step();
    return loss;
  };
  return {.items = items, .parameters = training->parameters(), .update = update};
}

/// A workload by its name, with the sizes of a CPU. Not from the settings: the workloads have some of the same names.
inline Step train(const Trial& trial, const std::string& workload) {
  if (workload == "gpt") {
    auto training = std::make_shared<tenfold::GptTraining>(trial, tenfold::GptOptions{});
    return train(training, training->tokens_per_step(), [training](const Tensor& ids, const Tensor& targets) {
      return training->model->loss(training->model->hidden(ids), targets);
    });
  }
  if (workload == "mlp") {
    const int64_t batch = tenfold::mlp::kBatch.value.cpu;
    auto training = std::make_shared<tenfold::MlpTraining>(trial, tenfold::MlpOptions{}, batch);
    return train(training, batch, [training](const Tensor& images, const Tensor& labels) {
      return torch::cross_entropy_loss(training->model(images), labels);
    });
  }
  auto training = std::make_shared<tenfold::FashionConvNet>(trial);
  return train(training, training->batches.batch(), [training](const Tensor& images, const Tensor& labels) {
    return torch::cross_entropy_loss(training->model(images), labels);
  });
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
