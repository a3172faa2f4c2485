// installs as <tenfold/gradient_noise.h>
#pragma once
// How noisy a gradient is, measured while a model trains in micro-batches, or on several ranks:
//
//   GradientNoise noise(/*small_batch=*/16, /*large_batch=*/128);
//   ...                                                  in every update, or in every tenth:
//   noise.add(mean_of_the_micro_batches_squared_norms, squared_norm_of(their_mean_gradient));
//   ...
//   noise.estimate().scale()                             in samples
//
// The gradient of a batch of B samples drawn independently is G plus noise of covariance S / B, so that
// E|g_B|^2 = |G|^2 + tr(S) / B: two batch sizes give two equations with two unknowns. The simple noise scale is
// tr(S) / |G|^2, the batch whose noise is as large as its gradient. It is the critical batch size where the curvature
// is the same in every direction; elsewhere its order of magnitude.
// Source: S. McCandlish et al., An Empirical Model of Large-Batch Training, 2018, arXiv:1812.06162, appendix A.

#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace tenfold {

/// What is known of a gradient's noise. Both are unbiased, so either may come out negative.
struct NoiseEstimate {
  double trace = 0;         ///< tr(S): variance of one sample's gradient, summed over the parameters; gradient squared
  double squared_norm = 0;  ///< |G|^2 of the true gradient; gradient squared

  /// The simple noise scale, in samples. Infinite where the noise hides the gradient: average over more updates then.
  double scale() const { return squared_norm > 0 ? trace / squared_norm : std::numeric_limits<double>::infinity(); }
};

/// From the mean squared norm of gradients of `small_batch` samples and of `large_batch`. Every gradient is a mean over
/// its samples, not a sum. Of batches 1 and n it is the direct estimate: n single samples, and their mean.
/// Throws c10::ValueError unless 1 <= small_batch < large_batch.
inline NoiseEstimate noise_of_two_batches(int64_t small_batch, int64_t large_batch, double small_square,
                                          double large_square) {
  TORCH_CHECK_VALUE(small_batch >= 1 && small_batch < large_batch,
                    "noise_of_two_batches: needs 1 <= small < large, got ", small_batch, " and ", large_batch);
  const auto small = static_cast<double>(small_batch), large = static_cast<double>(large_batch);
  return {.trace = (small_square - large_square) / (1 / small - 1 / large),
          .squared_norm = (large * large_square - small * small_square) / (large - small)};
}

/// |g|^2 over all these tensors, float64 () on their device, not synchronised. Undefined ones count as 0; throws
/// c10::ValueError when none is defined.
inline torch::Tensor squared_norm_of(const std::vector<torch::Tensor>& gradients) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> defined;
  auto type = torch::kFloat;  // at least: of a norm in 16 bits two or three digits are right, and above 65504 none
  for (const torch::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    defined.push_back(gradient.detach());
    if (gradient.scalar_type() == torch::kDouble) type = torch::kDouble;
  }
  TORCH_CHECK_VALUE(!defined.empty(), "squared_norm_of: no gradient is defined");
  return torch::stack(torch::_foreach_norm(defined, 2, type)).to(torch::kDouble).square().sum();
}

/// Averages the two squared norms over updates, and only then divides. A ratio for each update would be useless: below
/// its line stands an estimate of |G|^2 that is close to 0, or negative, in most updates.
class GradientNoise {
 public:
  /// `decay` 1 averages over all updates alike; 0.99 over about the last hundred, as the noise grows while a model
  /// learns. Throws c10::ValueError for batches as noise_of_two_batches(), and for a decay outside (0, 1].
  GradientNoise(int64_t small_batch, int64_t large_batch, double decay = 1)
      : small_batch_(small_batch), large_batch_(large_batch), decay_(decay) {
    noise_of_two_batches(small_batch, large_batch, 0, 0);
    TORCH_CHECK_VALUE(decay > 0 && decay <= 1, "GradientNoise: decay must be above 0 and at most 1, got ", decay);
  }

  /// The squared norms of one update, () each: the mean over its small batches of |g_small|^2, and |g_large|^2 of the
  /// mean of their gradients. In data parallel training the first is |g|^2 of a rank's gradient before the all-reduce,
  /// averaged over the data parallel ranks alone; the second that of the reduced gradient. Where hooks reduce it, as in
  /// DistributedDataParallel of lesson 52, take the first between backward() and finish(), and not with
  /// gradients_are_views: .grad is then what is being summed. Does not synchronise.
  void add(const torch::Tensor& small_square, const torch::Tensor& large_square) {
    const torch::NoGradGuard no_gradients;
    const torch::Tensor both = torch::stack({small_square.detach(), large_square.detach()}).to(torch::kDouble);  // (2)
    sums_ = sums_.defined() ? sums_ * decay_ + both : both;
    weight_ = weight_ * decay_ + 1;
  }

  /// Of all updates so far; waits for the device. Throws c10::Error before the first.
  NoiseEstimate estimate() const {
    TORCH_CHECK(sums_.defined(), "GradientNoise: estimate() before the first add()");
    const torch::Tensor mean = (sums_ / weight_).cpu();
    return noise_of_two_batches(small_batch_, large_batch_, mean[0].item<double>(), mean[1].item<double>());
  }

 private:
  int64_t small_batch_, large_batch_;
  double decay_;
  torch::Tensor sums_;  // (2): of the small batches' squares, of the large ones'
  double weight_ = 0;
};

}  // namespace tenfold
