#pragma once
// Your answer to exercise 61. Build and check it with: ./tenfold exercise 61
#include <torch/torch.h>

#include <cstdint>
#include <limits>

class NoiseScale {
 public:
  /// An update has `micro_batches` of them, of `micro_batch` samples each; two or more.
  NoiseScale(int64_t micro_batch, int64_t micro_batches) : micro_batch_(micro_batch), micro_batches_(micro_batches) {}

  /// (micro_batches, P): of one update, each the mean gradient of its samples.
  void add(const torch::Tensor& gradients) {
    const double noise = gradients.var(0).sum().item<double>();
    const double norm = gradients.sum(0).square().sum().item<double>();
    // Hint: in which unit is this, and what do you know of the average of ratios?
    ratios_ += noise / norm;
    ++updates_;
  }

  /// tr(S) / |G|^2 in samples, over all updates so far; infinity where the estimate of |G|^2 is not above 0.
  double scale() const { return ratios_ / static_cast<double>(updates_); }

 private:
  [[maybe_unused]] int64_t micro_batch_, micro_batches_;
  double ratios_ = 0;
  int64_t updates_ = 0;
};
