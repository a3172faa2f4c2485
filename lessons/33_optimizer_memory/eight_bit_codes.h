#pragma once
// The running averages of AdamW in 8 bits, block by block: 256 values share their largest magnitude in 32 bits, and
// each value is one of 256 codes of it. The codes are spaced by equal factors, not by equal differences: what matters
// of an average is its relative error, however small it is. Source of the idea: Dettmers et al., 8-bit Optimizers via
// Block-wise Quantization, 2021. The codes are our own.

#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <numbers>

namespace tenfold::inline lesson_33 {

inline constexpr int64_t kBlock = 256;  ///< values that share a maximum

/// Averages of gradients are positive or negative: 127 magnitudes of each sign over 10 octaves, neighbours 5.7 % apart,
/// and zero. What is under a thousandth of its block's largest becomes zero.
inline constexpr double kAverageOctaves = 10, kLargestAverageCode = 127;
/// Averages of squares are not negative: 256 magnitudes over 24 octaves, neighbours 6.7 % apart, so that the root is
/// right within 1.7 %. Zero is no code: its root would be the denominator of an update.
inline constexpr double kSquareOctaves = 24, kLargestSquareCode = 255;

/// Divides by a block's maximum; a block of zeros by the smallest normal number instead.
inline torch::Tensor divisors(const torch::Tensor& maxima) {
  return maxima.clamp_min(std::numeric_limits<float>::min());
}

/// Averages (R, C), a block each row, to codes (R, C) of int8 and maxima (R, 1). Allocates (R, C) of 32 bits.
inline void encode_averages(const torch::Tensor& values, torch::Tensor codes, torch::Tensor maxima) {
  torch::Tensor magnitudes = values.abs();
  maxima.copy_(magnitudes.amax(/*dim=*/1, /*keepdim=*/true));
  magnitudes.div_(divisors(maxima)).log2_();  // zero becomes minus infinity, which is the smallest code
  magnitudes.mul_((kLargestAverageCode - 1) / kAverageOctaves).add_(kLargestAverageCode).round_();
  codes.copy_(magnitudes.clamp_(0, kLargestAverageCode).copysign_(values));
}

/// The averages (R, C) that codes and maxima stand for. Allocates (R, C) of 32 bits besides.
/// By exp(): LibTorch compiles a kernel for exp2() when a program first calls it.
inline torch::Tensor decode_averages(const torch::Tensor& codes, const torch::Tensor& maxima) {
  torch::Tensor signs = codes.to(torch::kFloat);
  torch::Tensor values = signs.abs().sub_(kLargestAverageCode);
  values.mul_(std::numbers::ln2 * kAverageOctaves / (kLargestAverageCode - 1)).exp_().mul_(maxima);
  return values.mul_(signs.sign_());  // code zero is zero
}

/// Averages of squares (R, C), a block each row, to codes (R, C) of uint8 and maxima (R, 1). Allocates (R, C) of 32
/// bits. Values under the smallest code become the smallest code.
inline void encode_squares(const torch::Tensor& values, torch::Tensor codes, torch::Tensor maxima) {
  maxima.copy_(values.amax(/*dim=*/1, /*keepdim=*/true));
  torch::Tensor places = values.div(divisors(maxima)).log2_();
  places.mul_(kLargestSquareCode / kSquareOctaves).add_(kLargestSquareCode).round_();
  codes.copy_(places.clamp_(0, kLargestSquareCode));
}

/// The averages of squares (R, C) that codes and maxima stand for; zero only where the whole block was.
inline torch::Tensor decode_squares(const torch::Tensor& codes, const torch::Tensor& maxima) {
  torch::Tensor values = codes.to(torch::kFloat).sub_(kLargestSquareCode);
  return values.mul_(std::numbers::ln2 * kSquareOctaves / kLargestSquareCode).exp_().mul_(maxima);
}

}  // namespace tenfold::inline lesson_33
