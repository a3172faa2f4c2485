#pragma once
// The teacher: a wider convnet with dropout, trained once for all variants, runs and seeds; and its answers.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/seconds_since.h"
#include "common/harness/lesson.h"
#include "common/measure/global_state.h"
#include "common/measure/memory.h"
#include "common/models/convnet.h"
#include "common/models/host_batch.h"
#include "common/models/judged_images.h"
#include "distillation.h"
#include "settings.h"

namespace tenfold::inline lesson_63 {

/// The convnet with dropout before its last layer, so that its mode matters.
struct TeacherImpl : torch::nn::Module {
  explicit TeacherImpl(int64_t channels) : net(ConvNetOptions{.channels = channels}), dropout(0.3) {
    register_module("net", net);
    register_module("dropout", dropout);
  }
  torch::Tensor forward(const torch::Tensor& images) {  // (B, 1, 28, 28) -> (B, 10)
    torch::Tensor h = torch::relu(net->conv1(images));
    h = torch::max_pool2d(torch::relu(net->conv2(h)), {2, 2});
    return net->head(dropout(h.flatten(1)));
  }
  ConvNet net;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(Teacher);

struct TrainedTeacher {
  Teacher model = nullptr;
  double seconds = 0;  ///< of its training
};

/// What a teacher was made from.
inline std::string teacher_name(const Trial& trial) {
  return "teacher of " + std::to_string(trial.get(kTeacherChannels)) + " channels, " +
         std::to_string(trial.get(kTeacherUpdates) * trial.get(kUpdates)) + " updates";
}

inline TrainedTeacher train_teacher(const Trial& trial) {
  constexpr int64_t kBatch = 64;
  constexpr double kRate = 0.05;                                  // falls to 0
  const GlobalState before = GlobalState::capture(trial.device);  // whoever asks first must not draw other numbers
  torch::manual_seed(1);
  TrainedTeacher made{.model = Teacher(trial.get(kTeacherChannels))};
  made.model->to(trial.device);
  torch::optim::SGD optimizer(made.model->parameters(), torch::optim::SGDOptions(kRate).momentum(0.9));
  const at::Generator order = at::detail::createCPUGenerator(1);
  const ImageSet set = fashion_mnist(/*train=*/true);
  const int64_t updates = checked(trial, kTeacherUpdates, 1, 1000) * checked(trial, kUpdates, 1, 1 << 20);
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t update = 0; update < updates; ++update) {
    const double done = static_cast<double>(update) / static_cast<double>(updates);
    optimizer.param_groups()[0].options().set_lr(kRate * (1 - done));
    const torch::Tensor picked = torch::randint(0, set.size(), {kBatch}, order, torch::kLong);
    optimizer.zero_grad();
    const torch::Tensor images = normalise_images(rows_on(trial.device, set.images, picked));
    torch::cross_entropy_loss(made.model(images), rows_on(trial.device, set.labels, picked)).backward();
    optimizer.step();
  }
  synchronize(trial.device);
  made.seconds = seconds_since(begin);
  made.model->eval();
  before.restore();
  return made;
}

/// Read it, never write to it.
inline const TrainedTeacher& shared_teacher(const Trial& trial) {
  return trial.shared<TrainedTeacher>(teacher_name(trial), [&] { return train_teacher(trial); });
}

/// A variant's own, with the same values: its bytes count as that variant's.
inline Teacher own_teacher(const Trial& trial) {
  const TrainedTeacher& trained = shared_teacher(trial);
  Teacher copy(trial.get(kTeacherChannels));
  copy->to(trial.device);
  const torch::NoGradGuard no_graph;
  for (const auto& parameter : trained.model->named_parameters())
    copy->named_parameters()[parameter.key()].copy_(parameter.value());
  copy->eval();
  return copy;
}

/// The teacher's answers for the first images of the training set, for all variants and trainings.
inline const TeacherLogits& shared_logits(const Trial& trial) {
  const int64_t images = checked(trial, kPool, 1, kTrainImages);
  return trial.shared<TeacherLogits>("logits of " + std::to_string(images) + " images, " + teacher_name(trial), [&] {
    const ImageSet set = fashion_mnist(/*train=*/true);
    Teacher teacher = shared_teacher(trial).model;
    TeacherLogits cache({.samples = images, .classes = kClasses, .device = trial.device});
    const torch::NoGradGuard no_graph;
    for (int64_t from = 0; from < images; from += 64) {
      const int64_t count = std::min<int64_t>(64, images - from);
      const torch::Tensor inputs = normalise_images(tensor_on(trial.device, set.images.narrow(0, from, count)));
      cache.put(torch::arange(from, from + count), teacher(inputs));
    }
    cache.seal();
    if (trial.device.is_cpu()) cache.check_finite();
    return cache;
  });
}

/// A variant's own of this type. `order` (pool) says whose logits the first row gets, and so on: the mistake is any
/// that is not 0, 1, 2, ...
inline TeacherLogits own_logits(const Trial& trial, torch::ScalarType type, const torch::Tensor& order) {
  const TeacherLogits& shared = shared_logits(trial);
  TeacherLogits cache({.samples = order.size(0), .classes = kClasses, .type = type, .device = trial.device});
  cache.put(torch::arange(order.size(0)), shared.rows(order));
  cache.seal();
  return cache;
}

}  // namespace tenfold::inline lesson_63
