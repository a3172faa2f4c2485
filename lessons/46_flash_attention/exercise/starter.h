#pragma once
// Your answer to exercise 46. Build and check it with: ./tenfold exercise 46
#include "kernels/launch.cuh"

constexpr int kWidth = 32;  // of a head: a lane for each value

/// The sum over a warp, in every lane.
static __device__ float sum_of_warp(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
  return value;
}

/// A warp for each head: its scores, q * k / sqrt(kWidth), go to memory.
static __global__ void scores_of_head(float* scores, const float* q, const float* k, int64_t keys) {
  const int64_t head = blockIdx.x;
  const float mine = q[head * kWidth + threadIdx.x] * rsqrtf(static_cast<float>(kWidth));
  for (int64_t key = 0; key < keys; ++key) {
    const float score = sum_of_warp(mine * k[(head * keys + key) * kWidth + threadIdx.x]);
    if (threadIdx.x == 0) scores[head * keys + key] = score;
  }
}

/// A warp for each head: the largest score, and the mean of the values with weights exp(score - largest).
static __global__ void mean_of_values(float* out, const float* scores, const float* v, int64_t keys) {
  const int64_t head = blockIdx.x;
  float largest = -INFINITY, total = 0, sum = 0;
  for (int64_t key = 0; key < keys; ++key) largest = fmaxf(largest, scores[head * keys + key]);
  for (int64_t key = 0; key < keys; ++key) {
    const float weight = expf(scores[head * keys + key] - largest);
    total += weight;
    sum += weight * v[(head * keys + key) * kWidth + threadIdx.x];
  }
  out[head * kWidth + threadIdx.x] = sum / total;
}

/// out (heads, kWidth) = softmax(q k^T / sqrt(kWidth)) v with one query for each head: q (heads, kWidth); k and v
/// (heads, keys, kWidth). `workspace` has heads * keys floats.
inline void attend(tenfold::kernels::Stream stream, float* out, float* workspace, const float* q, const float* k,
                   const float* v, int64_t heads, int64_t keys) {
  // Hint: let `largest` be the largest score so far. When a larger one comes, by which factor are `total` and `sum` too
  // large?
  tenfold::kernels::launch(stream, dim3(static_cast<unsigned>(heads)), dim3(kWidth), 0, scores_of_head, workspace, q, k,
                           keys);
  tenfold::kernels::launch(stream, dim3(static_cast<unsigned>(heads)), dim3(kWidth), 0, mean_of_values, out, workspace,
                           v, keys);
}
