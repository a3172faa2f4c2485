#pragma once
// The kept solution of exercise 46; CI proves that it passes.
#include "kernels/launch.cuh"

constexpr int kWidth = 32;  // of a head: a lane for each value

/// The sum over a warp, in every lane.
static __device__ float sum_of_warp(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
  return value;
}

/// A warp for each head. What was summed belongs to the largest score so far: exp(score - largest). With a new one it
/// is too large by exp(new largest - old largest), and is scaled down.
static __global__ void attend_online(float* out, const float* q, const float* k, const float* v, int64_t keys) {
  const int64_t head = blockIdx.x;
  const float mine = q[head * kWidth + threadIdx.x] * rsqrtf(static_cast<float>(kWidth));
  float largest = -INFINITY, total = 0, sum = 0;
  for (int64_t key = 0; key < keys; ++key) {
    const int64_t at = (head * keys + key) * kWidth + threadIdx.x;
    const float score = sum_of_warp(mine * k[at]);
    const float now = fmaxf(largest, score), shrink = expf(largest - now), weight = expf(score - now);
    total = total * shrink + weight;
    sum = sum * shrink + weight * v[at];
    largest = now;
  }
  out[head * kWidth + threadIdx.x] = sum / total;
}

/// out (heads, kWidth) = softmax(q k^T / sqrt(kWidth)) v with one query for each head: q (heads, kWidth); k and v
/// (heads, keys, kWidth). `workspace` has heads * keys floats; nothing needs it any more.
inline void attend(tenfold::kernels::Stream stream, float* out, float* /*workspace*/, const float* q, const float* k,
                   const float* v, int64_t heads, int64_t keys) {
  tenfold::kernels::launch(stream, dim3(static_cast<unsigned>(heads)), dim3(kWidth), 0, attend_online, out, q, k, v,
                           keys);
}
