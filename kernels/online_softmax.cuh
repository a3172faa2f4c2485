#pragma once
// The largest value of a row and the sum of its exponentials, found in one pass: what softmax, cross-entropy and
// attention need of a row. Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018
// (arXiv:1805.02867).

#include "rows.cuh"

namespace tenfold::kernels {

/// exp(value - largest), and 0 for -infinity even where all that was seen so far is -infinity.
__device__ inline float exp_below(float value, float largest) {
  return value == -INFINITY ? 0.0F : expf(value - largest);
}

/// The largest of some values, and the sum of exp(value - largest). Of no value at all: {-INFINITY, 0}.
struct alignas(8) LargestAndSum {  // moved as one, on a GPU as under the microscope
  float largest, sum;
};
struct JoinLargestAndSum {
  /// The sum of the smaller largest is scaled down to the larger one; this may be done in any order and grouping.
  __device__ LargestAndSum operator()(LargestAndSum a, LargestAndSum b) const {
    const float largest = fmaxf(a.largest, b.largest);
    return {largest, a.sum * exp_below(a.largest, largest) + b.sum * exp_below(b.largest, largest)};
  }
};
__device__ inline LargestAndSum shuffle_xor(LargestAndSum value, int lanes) {
  return {shuffle_xor(value.largest, lanes), shuffle_xor(value.sum, lanes)};
}

/// `found` and the values of a packet: the sum is rescaled once for all of them, instead of once for each.
template <class T, int N>
__device__ inline LargestAndSum join_packet(LargestAndSum found, const Packet<T, N>& packet) {
  float largest = found.largest;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = fmaxf(largest, to_float(packet.values[i]));
  float sum = found.sum * exp_below(found.largest, largest);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += exp_below(to_float(packet.values[i]), largest);
  return {largest, sum};
}

}  // namespace tenfold::kernels
