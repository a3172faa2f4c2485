#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <limits>

class NoiseScale {
 public:
  /// An update has `micro_batches` of them, of `micro_batch` samples each; two or more.
  NoiseScale(int64_t micro_batch, int64_t micro_batches)
      : small_batch_(static_cast<double>(micro_batch)),
        large_batch_(static_cast<double>(micro_batch) * static_cast<double>(micro_batches)) {}

  /// (micro_batches, P): of one update, each the mean gradient of its samples.
  void add(const torch::Tensor& gradients) {
    small_ += gradients.square().sum(1).mean().item<double>();
    large_ += gradients.mean(0).square().sum().item<double>();
    ++updates_;
  }

  /// tr(S) / |G|^2 in samples, over all updates so far; infinity where the estimate of |G|^2 is not above 0.
  double scale() const {
    const double small = small_ / updates_, large = large_ / updates_;
    const double trace = (small - large) / (1 / small_batch_ - 1 / large_batch_);
    const double norm = (large_batch_ * large - small_batch_ * small) / (large_batch_ - small_batch_);
    return norm > 0 ? trace / norm : std::numeric_limits<double>::infinity();
  }

 private:
  double small_batch_, large_batch_;
  double small_ = 0, large_ = 0, updates_ = 0;
};
