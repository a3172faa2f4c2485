#pragma once
// One function of every element, in two ways; see fast_math.h.

#include "fast_math.h"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// sqrt(2 / pi) (x + 0.044715 x^3): what gelu takes the tanh of.
__device__ inline float gelu_argument(float x) { return 0.7978845608F * (x + 0.044715F * x * x * x); }

template <MathFunction function>
__device__ inline float by_library(float x) {
  if constexpr (function == MathFunction::exponential) return expf(x);
  if constexpr (function == MathFunction::sine) return sinf(x);
  if constexpr (function == MathFunction::sigmoid) return 1 / (1 + expf(-x));
  if constexpr (function == MathFunction::gelu) return 0.5F * x * (1 + tanhf(gelu_argument(x)));
  if constexpr (function == MathFunction::inverse_root) return 1 / sqrtf(x);
  return x;
}

template <MathFunction function>
__device__ inline float by_intrinsics(float x) {
  if constexpr (function == MathFunction::exponential) return __expf(x);
  if constexpr (function == MathFunction::sine) return __sinf(x);
  if constexpr (function == MathFunction::sigmoid) return __fdividef(1, 1 + __expf(-x));
  if constexpr (function == MathFunction::gelu) return __fdividef(x, 1 + __expf(-2 * gelu_argument(x)));
  if constexpr (function == MathFunction::inverse_root) return rsqrtf(x);
  return x;
}

/// Rung 0: library functions. They are right to 2 units in the last place or better, for every argument: besides the
/// approximation that the hardware has, they spend instructions on reducing the argument, on correcting the result, and
/// on rare cases. Memory sees 4 sectors for a load and 4 for a store, in this rung and the next.
template <MathFunction function>
static __global__ void math_by_library(float* __restrict__ out, const float* __restrict__ in, int64_t n, int repeats) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i], sum = by_library<function>(x);
#pragma unroll 1
  for (int r = 1; r < repeats; ++r) {
    x += kFastMathStep;
    sum += by_library<function>(x);
  }
  out[i] = sum;
}

/// Rung 1: intrinsics, little more than one instruction of the special function unit each (MUFU in the machine code),
/// which takes its argument in units of its own: powers of 2, turns of a circle. The product that converts it is
/// rounded, so that the error grows with the argument.
template <MathFunction function>
static __global__ void math_by_intrinsics(float* __restrict__ out, const float* __restrict__ in, int64_t n,
                                          int repeats) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i], sum = by_intrinsics<function>(x);
#pragma unroll 1
  for (int r = 1; r < repeats; ++r) {
    x += kFastMathStep;
    sum += by_intrinsics<function>(x);
  }
  out[i] = sum;
}

}  // namespace tenfold::kernels
