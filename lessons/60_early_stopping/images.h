#pragma once
// Three splits of Fashion-MNIST: images to train on, images that the stop is chosen on, and images that neither has
// seen. And a convnet that trains on the first.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/host_batch.h"

namespace tenfold::inline lesson_60 {

inline constexpr Setting<int64_t> kImages{"images", 60000, "to train on, of 60000"};
inline constexpr Setting<int64_t> kValidation{"validation", 256, "images of a check, of 5000"};
inline constexpr Setting<int64_t> kEvery{"every", 10, "updates between two checks"};

inline constexpr int64_t kTrainImages = 60000, kHalf = 5000;  // the test file's two halves: validation, and unseen

/// `count` images after each other, a view of the file: (N, 1, 28, 28) bytes with labels (N).
inline ImageSet images_from(bool train, int64_t first, int64_t count) {
  const ImageSet all = fashion_mnist(train);
  return {all.images.narrow(0, first, count), all.labels.narrow(0, first, count)};
}

/// Which of `all` images a seed has: `count` after each other, other ones for the next seed.
inline int64_t first_image(uint64_t seed, int64_t count, int64_t all) {
  const int64_t starts = all - count + 1;
  return static_cast<int64_t>(seed % static_cast<uint64_t>(starts)) * count % starts;
}

inline int64_t checked(const Trial& trial, const Setting<int64_t>& setting, int64_t most) {
  const int64_t value = trial.get(setting);
  TORCH_CHECK_VALUE(value >= 1 && value <= most, "setting ", setting.name, "=", value, ": must be 1 to ", most);
  return value;
}

inline ImageSet training_images(const Trial& trial) {
  const int64_t count = checked(trial, kImages, kTrainImages);
  return images_from(/*train=*/true, first_image(trial.seed, count, kTrainImages), count);
}
inline ImageSet validation_images(const Trial& trial) {
  const int64_t count = checked(trial, kValidation, kHalf);
  return images_from(/*train=*/false, first_image(trial.seed, count, kHalf), count);
}
/// Never those of a validation, and the same for every seed.
inline ImageSet unseen_images(int64_t count) { return images_from(/*train=*/false, kHalf, count); }

/// The loss of each image, (N) on the CPU: no gradients, nothing of the training changed.
inline torch::Tensor losses_of(ConvNet& model, const ImageSet& set, torch::Device device) {
  const torch::NoGradGuard no_gradients;
  const int64_t at_once = device.is_cpu() ? 64 : 512;  // never more alive than in a training step of the workload
  std::vector<torch::Tensor> losses;
  for (int64_t from = 0; from < set.size(); from += at_once) {
    const int64_t count = std::min(at_once, set.size() - from);
    const torch::Tensor images = normalise_images(tensor_on(device, set.images.narrow(0, from, count)));
    const torch::Tensor labels = tensor_on(device, set.labels.narrow(0, from, count));
    losses.push_back(torch::cross_entropy_loss(model(images), labels, {}, at::Reduction::None));
  }
  return torch::cat(losses).cpu();
}

inline double mean_loss(ConvNet& model, const ImageSet& set, torch::Device device) {
  return losses_of(model, set, device).mean().item<double>();
}

/// The convnet workload, on as many images as the setting says. On all of them its batches are the workload's.
struct ImagesTraining : ConvNetTraining {
  explicit ImagesTraining(const Trial& trial)
      : ConvNetTraining(convnet_options(trial), trial.device),
        device(trial.device),
        set(training_images(trial)),
        batch(trial.get(convnet::kBatch)),
        order(at::detail::createCPUGenerator(trial.seed)) {}

  std::pair<torch::Tensor, torch::Tensor> next_batch() {
    RECORD_USER_SCOPE("data");
    const torch::Tensor picked = torch::randint(0, set.size(), {batch}, order, torch::kLong);
    return {normalise_images(rows_on(device, set.images, picked)), rows_on(device, set.labels, picked)};
  }

  /// One update from these images (B, 1, 28, 28) and labels (B).
  torch::Tensor update(const torch::Tensor& images, const torch::Tensor& labels) {
    optimizer->zero_grad();
    torch::Tensor loss;
    {
      RECORD_USER_SCOPE("forward");
      loss = torch::cross_entropy_loss(model(images), labels);
    }
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  torch::Tensor update() {
    const auto [images, labels] = next_batch();
    return update(images, labels);
  }

  torch::Device device;
  ImageSet set;
  int64_t batch;
  at::Generator order;
};

}  // namespace tenfold::inline lesson_60
