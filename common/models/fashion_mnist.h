#pragma once
// Fashion-MNIST: 60,000 + 10,000 gray images of clothes in ten classes.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "common/measure/trial.h"

namespace tenfold {

/// Images with their classes. Both tensors lie on the CPU, in memory shared by every ImageSet of this process: read
/// them, never write to them. They do not come from the tensor allocator, so a measured peak never holds the data set.
struct ImageSet {
  torch::Tensor images;  ///< (N, 1, 28, 28) uint8
  torch::Tensor labels;  ///< (N) int64, 0..9

  int64_t size() const { return images.size(0); }
};

/// The 60,000 images to train on (true), or the 10,000 to test on (false). Decoded once per process. Throws DataError
/// when a file is missing, altered, or not what its header says.
/// Source: H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
/// Algorithms, 2017, arXiv:1708.07747; the idx format: Y. LeCun, C. Cortes, C. Burges, The MNIST database.
ImageSet fashion_mnist(bool train);

/// Mean and standard deviation of the training images' pixels, on the scale 0..1.
inline constexpr double kFashionMnistMean = 0.2860;
inline constexpr double kFashionMnistStd = 0.3530;

/// uint8 images of any shape as float32 with mean 0 and standard deviation 1 over the training set; on their device.
torch::Tensor normalise_images(const torch::Tensor& images);

/// Batches for one variant, in an order that only the trial's seed decides.
class FashionBatches {
 public:
  FashionBatches(const Trial& trial, int64_t batch);
  /// (B, 1, 28, 28) float, normalised, and (B) labels, on the trial's device. Region "data".
  std::pair<torch::Tensor, torch::Tensor> next();
  int64_t batch() const { return batch_; }

 private:
  torch::Device device_;
  int64_t batch_;
  at::Generator generator_;
};

/// Mean loss of 500 test images, (500, 1, 28, 28) to `forward`, on this device. Without gradients.
double held_out_loss(const std::function<torch::Tensor(const torch::Tensor&)>& forward, torch::Device device);

/// A workload on such batches: `Training` has model, optimizer, parameters(), next_batch() and batches.
template <class Training>
Work image_work(const Trial& trial) {
  auto training = std::make_shared<Training>(trial);
  const auto next_logits = [training] {
    auto [images, labels] = training->next_batch();  // (B, 1, 28, 28), (B)
    return std::pair(training->model->forward(images), labels);
  };
  return {.items = training->batches.batch(),
          .parameters = training->parameters(),
          .optimizer = {training, training->optimizer.get()},
          .next_logits = next_logits,
          .next_loss =
              [next_logits] {
                const auto [logits, labels] = next_logits();
                return torch::cross_entropy_loss(logits.to(torch::kFloat), labels);
              },
          .model = training->model.ptr(),
          .held_out_loss =
              [training, device = trial.device] {
                return held_out_loss([&](const torch::Tensor& images) { return training->model->forward(images); },
                                     device);
              }};
}

/// Bytes of a batch on its device, and the most while it is made: picked rows, bytes, floats, labels.
int64_t fashion_batch_bytes(int64_t batch);
int64_t fashion_batch_peak_bytes(int64_t batch);

}  // namespace tenfold
