#pragma once
// The largest value of a row and the sum of its exponentials, found in one pass: what softmax, cross-entropy and
// attention need of a row. Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018
// (arXiv:1805.02867).

#include "join_block.cuh"
#include "ptx.cuh"

namespace tenfold::kernels {

/// What is subtracted from values of which `largest` is the largest so far. Where that is -infinity all of them are,
/// and the difference would be NaN; with 0 their exponentials are 0.
__device__ inline float base_of(float largest) { return largest == -INFINITY ? 0.0F : largest; }

/// exp(value - base) for a value that is not above it, by one power of two: no branch for numbers too small or too
/// large, which expf() has.
__device__ inline float exp_below(float value, float base) {
  constexpr float kLog2E = 1.4426950408889634F;
  return exp2_approx((value - base) * kLog2E);
}

/// The largest of some values, and the sum of exp(value - largest). Of no value at all: {-INFINITY, 0}.
struct alignas(8) LargestAndSum {  // moved as one, on a GPU as under the microscope
  float largest, sum;
};
struct JoinLargestAndSum {
  /// The sum of the smaller largest is scaled down to the larger one; this may be done in any order and grouping.
  __device__ LargestAndSum operator()(LargestAndSum a, LargestAndSum b) const {
    const float largest = fmaxf(a.largest, b.largest), base = base_of(largest);
    return {largest, a.sum * exp_below(a.largest, base) + b.sum * exp_below(b.largest, base)};
  }
};
__device__ inline LargestAndSum shuffle_xor(LargestAndSum value, int lanes) {
  return {shuffle_xor(value.largest, lanes), shuffle_xor(value.sum, lanes)};
}

__device__ inline LargestAndSum of_first_lane(LargestAndSum value) {
  return {of_first_lane(value.largest), of_first_lane(value.sum)};
}

/// `found` and the values of a packet: the sum is rescaled once for all of them, instead of once for each.
template <class T, int N>
__device__ inline LargestAndSum join_packet(LargestAndSum found, const Packet<T, N>& packet) {
  float largest = found.largest;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = fmaxf(largest, to_float(packet.values[i]));
  const float base = base_of(largest);
  float sum = found.sum * exp_below(found.largest, base);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += exp_below(to_float(packet.values[i]), base);
  return {largest, sum};
}

}  // namespace tenfold::kernels
