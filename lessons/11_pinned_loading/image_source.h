#pragma once
// What lesson 11 loads: rows of Fashion-MNIST in an order of their own, and their staging on the way to a device.

#include <ATen/CPUGeneratorImpl.h>

#include "common/models/convnet.h"
#include "common/models/fashion_mnist.h"
#include "pinned_staging.h"

#include <cstdint>
#include <utility>

namespace tenfold::inline lesson_11 {

using ImageBatch = std::pair<torch::Tensor, torch::Tensor>;  // (B, 1, 28, 28) uint8, (B)

/// The data set and the order in which its rows are drawn; only the trial's seed decides it.
struct ImageSource {
  explicit ImageSource(const Trial& trial)
      : set(fashion_mnist(/*train=*/true)),
        order(at::detail::createCPUGenerator(trial.seed)),
        batch(trial.get(convnet::kBatch)) {}
  torch::Tensor draw() { return torch::randint(0, set.size(), {batch}, order, torch::kLong); }  // (B)

  ImageSet set;
  at::Generator order;
  int64_t batch;
};

/// A ring for images and one for labels: their shapes differ, and a slot keeps its shape.
struct ImageStaging {
  ImageStaging(torch::Device device, bool pinned) : images(device, 2, pinned), labels(device, 2, pinned) {}
  void gather(const ImageSet& set, const torch::Tensor& picked) {
    images.gather(set.images, picked);
    labels.gather(set.labels, picked);
  }
  ImageBatch send(bool non_blocking) {
    torch::Tensor sent = images.send(non_blocking);
    return {sent, labels.send(non_blocking)};
  }

  PinnedStaging images, labels;
};

}  // namespace tenfold::inline lesson_11
