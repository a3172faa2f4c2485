#pragma once
// A convnet trained on five classes of Fashion-MNIST, once for all runs and seeds, and its fine-tuning to the other
// five with few images.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "common/base/seconds_since.h"
#include "common/harness/lesson.h"
#include "common/measure/global_state.h"
#include "common/measure/memory.h"
#include "common/models/convnet.h"
#include "common/models/host_batch.h"
#include "common/models/judged_images.h"
#include "layerwise_rates.h"
#include "settings.h"

namespace tenfold::inline lesson_62 {

inline constexpr int64_t kClasses = 5;

/// Images of the odd classes (trouser, dress, sandal, sneaker, boot) or of the even ones (T-shirt, pullover, coat,
/// shirt, bag), with labels 0 to 4.
inline const ImageSet& half_of_classes(const Trial& trial, bool train, bool odd) {
  const std::string name = std::string(odd ? "odd" : "even") + (train ? ", training" : ", test");
  return trial.shared<ImageSet>(name, [&] {
    const ImageSet all = fashion_mnist(train);
    const torch::Tensor picked = (all.labels % 2 == (odd ? 1 : 0)).nonzero().flatten();
    return ImageSet{all.images.index_select(0, picked), all.labels.index_select(0, picked).div(2, "floor")};
  });
}

struct SourceModel {
  ConvNet model = nullptr;
  double seconds = 0;  ///< of its training
};

/// Trained on the odd classes. Read it, never write to it.
inline const SourceModel& source_model(const Trial& trial) {
  const int64_t updates = checked(trial, kSourceUpdates, 1, 1000) * checked(trial, kUpdates, 1, 1 << 20);
  const int64_t channels = trial.get(convnet::kChannels);
  const std::string name = "source, " + std::to_string(channels) + " channels, " + std::to_string(updates) + " updates";
  return trial.shared<SourceModel>(name, [&] {
    constexpr int64_t kBatch = 64;
    const GlobalState before = GlobalState::capture(trial.device);  // whoever asks first must not draw other numbers
    torch::manual_seed(1);
    ConvNetTraining source({.channels = channels, .classes = kClasses, .learning_rate = 0.02}, trial.device);
    const at::Generator order = at::detail::createCPUGenerator(1);
    const ImageSet& set = half_of_classes(trial, /*train=*/true, /*odd=*/true);
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t update = 0; update < updates; ++update) {
      const torch::Tensor picked = torch::randint(0, set.size(), {kBatch}, order, torch::kLong);
      source.optimizer->zero_grad();
      const torch::Tensor images = normalise_images(rows_on(trial.device, set.images, picked));
      torch::cross_entropy_loss(source.model(images), rows_on(trial.device, set.labels, picked)).backward();
      source.optimizer->step();
    }
    synchronize(trial.device);
    before.restore();
    return SourceModel{.model = source.model, .seconds = seconds_since(begin)};
  });
}

/// One way to fine-tune.
struct Way {
  double rate = 0.01;
  double decay = 1;           ///< 1: one rate for all stages
  bool from_scratch = false;  ///< weights as they are drawn
  int64_t trained = 3;        ///< stages that train, the last ones
  bool gradual = false;       ///< begins with the head, and each third of the first half adds a stage
  bool overwritten = false;   ///< the mistake: the schedule writes one rate into all groups
  Judge judge = Judge::unseen;
};

/// Linearly to nothing: what a fine-tuning's rate usually does.
inline double rate_factor(int64_t update, int64_t updates) {
  return 1 - static_cast<double>(update) / static_cast<double>(updates);
}

inline Learned fine_tune(const Trial& trial, const Way& way) {
  constexpr int64_t kEvaluations = 2;
  const int64_t updates = checked(trial, kUpdates, 1, 1 << 20);
  const SourceModel& source = source_model(trial);
  ConvNet model(ConvNetOptions{.channels = trial.get(convnet::kChannels), .classes = kClasses});
  model->to(trial.device);
  const Stages stages = stages_of(model->named_parameters(), stage_names());
  if (!way.from_scratch) {
    const torch::NoGradGuard no_graph;
    const Stages from = stages_of(source.model->named_parameters(), stage_names());
    for (size_t i = 0; i + 1 < stages.size(); ++i)  // the head has other classes: it begins as it was drawn
      for (size_t p = 0; p < stages[i].parameters.size(); ++p) {
        torch::Tensor to = stages[i].parameters[p];
        to.copy_(from[i].parameters[p]);
      }
  }
  const auto base = torch::optim::SGDOptions(way.rate).momentum(0.9);
  torch::optim::SGD optimizer(layerwise_groups(stages, base, way.decay), base);
  RateSchedule schedule(optimizer);
  const ImageSet& all = half_of_classes(trial, /*train=*/true, /*odd=*/false);
  const int64_t count = checked(trial, kImages, 1, all.size()), first = first_of_seed(trial.seed, count, all.size());
  const int64_t batch = trial.get(convnet::kBatch);
  const at::Generator order = at::detail::createCPUGenerator(trial.seed);
  int64_t trained = unfreeze_last(stages, way.gradual ? 1 : way.trained), update = 0;
  const auto next_update = [&] {
    const int64_t wanted = way.gradual ? 1 + 4 * update / updates : way.trained;
    if (wanted != trained && trained < 3) trained = unfreeze_last(stages, wanted);
    schedule.scale(rate_factor(update, updates));
    if (way.overwritten)
      for (auto& group : optimizer.param_groups()) group.options().set_lr(way.rate * rate_factor(update, updates));
    ++update;
    const torch::Tensor picked = first + torch::randint(0, count, {batch}, order, torch::kLong);
    optimizer.zero_grad();
    const torch::Tensor images = normalise_images(rows_on(trial.device, all.images, picked));
    const torch::Tensor loss = torch::cross_entropy_loss(model(images), rows_on(trial.device, all.labels, picked));
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  const ImageSet& test = half_of_classes(trial, /*train=*/false, /*odd=*/false);
  trial.note("first training", source.seconds, "s");
  return train_to_the_end(trial.device, {.items = batch, .update = next_update},
                          {.updates = updates, .evaluations = kEvaluations},
                          [&] { return accuracy(model, test, way.judge, trial.device); });
}

/// A run of a training.
inline std::function<Learned(const Trial&)> tuned(const Way& way) {
  return [way](const Trial& trial) { return fine_tune(trial, way); };
}

}  // namespace tenfold::inline lesson_62
