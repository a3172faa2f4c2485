#pragma once
// AdamW for many tensors at once.

#include <cstdint>
#include <span>

namespace tenfold::kernels {

inline constexpr int kAdamWRungs = 3;

/// One float tensor and what belongs to it, all of `count` values: the parameter and the moving averages of the
/// gradient and of its square, which are zeros before the first step, are updated in place; the gradient is only read.
/// None may overlap another.
struct AdamWTensor {
  float *parameter, *average, *square_average;
  const float* gradient;
  int64_t count;
};

/// Doubles, because 1 - 0.999 in float is off by 1e-5 of itself; what the kernels need of them is rounded once.
struct AdamWSettings {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
};

/// Step number `step` (1 for the first) of every tensor:
///   average        = beta1 average + (1 - beta1) gradient
///   square_average = beta2 square_average + (1 - beta2) gradient^2
///   parameter     -= learning_rate (average / (1 - beta1^step) / (sqrt(square_average / (1 - beta2^step)) + epsilon)
///                                   + weight_decay parameter)
/// The weight decay is decoupled: it enters neither average. With `learning_rate` following a schedule this is
/// torch.optim.AdamW. Rungs: 0 a launch per tensor, 1 one launch for kAdamWTensors tensors, 2 the same with 16-byte
/// accesses for the tensors whose four addresses allow them. The list of tensors travels with the launch, by value, so
/// it may be gone when this returns; tensors of 0 values are passed over, and an empty list is no error. Throws
/// std::invalid_argument, before any launch, for a negative count, a null pointer where there are values, a step below
/// 1, settings outside 0 <= beta < 1 or not finite, or an unknown rung. Source: Loshchilov and Hutter, "Decoupled
/// Weight Decay Regularization", 2019 (arXiv:1711.05101), algorithm 2.
template <class Stream>
void adamw(Stream stream, std::span<const AdamWTensor> tensors, const AdamWSettings& settings, int64_t step,
           int rung = kAdamWRungs - 1);

/// Values that a block of rungs 1 and 2 updates: 64 Ki.
inline constexpr int64_t kAdamWChunk = 65536;
/// Tensors of one launch of rungs 1 and 2: their list stays below the 4 KiB that a kernel's parameters may have
/// everywhere.
inline constexpr int kAdamWTensors = 88;

}  // namespace tenfold::kernels
