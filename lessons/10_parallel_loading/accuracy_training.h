#pragma once
// Training to an end: how accurate a model becomes on images that it has not seen.

#include "loader.h"
#include "loading_workload.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/harness/lesson.h"

namespace tenfold::inline lesson_10 {

namespace loading {
inline constexpr Setting<int64_t> kUpdates{"updates", {100, 300, 300}, "updates of a training"};
}  // namespace loading

/// One update from a batch of images (B, C, S, S) and labels (B); its loss.
using UpdateFromBatch = std::function<torch::Tensor(ClipartTraining&, const std::vector<torch::Tensor>&)>;

struct UnseenImages {
  torch::Tensor images, labels;  ///< (N, 3, side, side) float and (N), on the CPU
};

/// Openclipart's test images as the trial has them.
inline const UnseenImages& unseen_images(const Trial& trial) {
  const std::string form = trial.get(loading::kImages) + " of side " + std::to_string(trial.get(loading::kSide));
  return trial.shared<UnseenImages>(form, [&] {
    Loader loader(clipart_samples(trial, /*train=*/false), {.batch = 64, .workers = 2, .shuffle = false});
    std::vector<torch::Tensor> images, labels;
    while (const Batch* batch = loader.next()) {
      images.push_back(batch->fields[0].clone());
      labels.push_back(batch->fields[1].clone());
    }
    return UnseenImages{torch::cat(images), torch::cat(labels)};
  });
}

/// Percent of them that the model puts into the right class.
inline double test_accuracy(ClipartTraining& training, const UnseenImages& unseen, torch::Device device) {
  const torch::NoGradGuard no_gradients;
  constexpr int64_t kAtOnce = 256;
  int64_t correct = 0;
  for (int64_t from = 0; from < unseen.labels.size(0); from += kAtOnce) {
    const int64_t to = std::min(from + kAtOnce, unseen.labels.size(0));
    const torch::Tensor answers = training.model(unseen.images.slice(0, from, to).to(device)).argmax(1).cpu();
    correct += answers.eq(unseen.labels.slice(0, from, to)).sum().item<int64_t>();
  }
  return 100.0 * static_cast<double>(correct) / static_cast<double>(unseen.labels.size(0));
}

/// What accuracy is held against: that of always naming the test images' largest class, in percent.
inline double majority_class_accuracy(const Trial& trial) {
  const auto shard = clipart_shard(trial, /*train=*/false);
  std::vector<int64_t> of_class(shard->classes().size());
  for (int64_t i = 0; i < shard->size(); ++i) ++of_class[static_cast<size_t>(shard->label(i))];
  return 100.0 * static_cast<double>(*std::max_element(of_class.begin(), of_class.end())) /
         static_cast<double>(shard->size());
}

/// Trains on `samples` to its end, evaluated on the test images. Notes the whole epochs, and what naming the largest
/// class would reach.
inline Learned accuracy_training(const Trial& trial, const Dataset& samples, const LoaderOptions& options,
                                 const UpdateFromBatch& update) {
  const UnseenImages& unseen = unseen_images(trial);
  ClipartTraining training = training_on(trial, samples);
  Loader loader(samples, options);
  int64_t epochs = 0;
  const auto update_from_next = [&] {
    const Batch* batch = loader.next();
    if (batch == nullptr) {
      ++epochs;
      batch = loader.next();
    }
    return update(training, batch->to(trial.device));
  };
  const Step step{
      .items = options.batch, .update = update_from_next, .park = [&loader](bool stopped) { loader.park(stopped); }};
  const Learned learned =
      train_to_the_end(trial.device, step, {.updates = trial.get(loading::kUpdates), .evaluations = 6},
                       [&] { return test_accuracy(training, unseen, trial.device); });
  trial.note("whole epochs", static_cast<double>(epochs), "epochs");
  trial.note("accuracy of naming the largest class", majority_class_accuracy(trial), "%");
  return learned;
}

}  // namespace tenfold::inline lesson_10
