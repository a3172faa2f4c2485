#pragma once
// What attention's rungs for Hopper are made of: products of a warpgroup, and the softmax between two of them.
//
// A warpgroup has 64 queries, a warp 16 of them. wgmma gives its results in mma.sync's layout: lane i holds of each 8
// columns two neighbours in rows i / 4 and i / 4 + 8. Rounded to T they are what wgmma takes as a left operand in
// registers, so that weights never lie in memory.

#include "attention_mma.cuh"
#include "attention_tma.h"
#include "kernels/ptx_wgmma_hopper.cuh"

namespace tenfold::kernels {

/// Starts scores (64, kAttentionKeys) = q k^T of the tiles at these shared addresses, as a group of its own.
template <class T, int D>
__device__ __forceinline__ void start_scores(float (&scores)[kAttentionKeys / 8][4], uint32_t q, uint32_t k,
                                             int group) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    wgmma_m64n128k16<T>(scores, attention_descriptor_q(q, group, step), attention_descriptor_k(k, step), step != 0);
  }
  wgmma_commit();
}

/// Starts sums (64, D) += weights * v of the tile at this shared address, as a group of its own.
template <class T, int D>
__device__ __forceinline__ void start_results(float (&sums)[D / 8][4],
                                              const uint32_t (&weights)[kAttentionKeys / 16][4], uint32_t v) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kAttentionKeys / 16; ++step) {
    const uint64_t values = attention_descriptor_v(v, step);
    if constexpr (D == 64) wgmma_m64n64k16_registers<T>(sums, weights[step], values, true);
    if constexpr (D == 128) wgmma_m64n128k16_registers<T>(sums, weights[step], values, true);
  }
  wgmma_commit();
}

/// The scores that are not seen become -infinity: `query` is the lane's first row, `first` the tile's first key and
/// `first_query` the warpgroup's first row.
template <class T>
__device__ __forceinline__ void hide_scores(float (&scores)[kAttentionKeys / 8][4], const AttentionInput<T>& in,
                                            int query, int first, int first_query) {
  const int end = first + kAttentionKeys;
  if (end <= in.keys && (!in.causal || end <= first_query)) return;
#pragma unroll
  for (int n = 0; n < kAttentionKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first + 8 * n + static_cast<int>(threadIdx.x % 4) * 2 + i % 2;
      if (!sees(in, query + i / 2 * 8, key)) scores[n][i] = -INFINITY;
    }
  }
}

/// What a lane keeps of its two rows: the largest score so far, and the sum of the weights of its own columns.
struct RunningSoftmax {
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
};

/// A tile's scores become weights. `shrink`: what is to be multiplied with the results before, whose weights were
/// computed with smaller largest scores. `scale` has log2(e) in it.
__device__ __forceinline__ void weigh_scores(float (&scores)[kAttentionKeys / 8][4], RunningSoftmax& rows,
                                             float (&shrink)[2], float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int side = 2 * half;
    float most = rows.largest[half];
#pragma unroll
    for (int n = 0; n < kAttentionKeys / 8; ++n) most = fmaxf(most, fmaxf(scores[n][side], scores[n][side + 1]));
    most = combine_quad(most, Larger());  // finite: every query sees key 0, which is in the first tile
    shrink[half] = exp2_approx((rows.largest[half] - most) * scale);
    rows.largest[half] = most;
    rows.total[half] *= shrink[half];
    const float shift = most * scale;
#pragma unroll
    for (int n = 0; n < kAttentionKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[n][side + i];
        score = exp2_approx(score * scale - shift);
        rows.total[half] += score;
      }
    }
  }
}

/// Whether one of the warp's rows has a new largest score, which is rare after the first tiles; else what was summed
/// stays as it is.
__device__ __forceinline__ bool have_grown(const float (&shrink)[2]) {
  return __any_sync(0xffffffffU, shrink[0] != 1 || shrink[1] != 1) != 0;
}
template <int kEights>
__device__ __forceinline__ void shrink_sums(float (&sums)[kEights][4], const float (&shrink)[2]) {
#pragma unroll
  for (int n = 0; n < kEights; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] *= shrink[i / 2];
  }
}

/// Weights as wgmma's left operand, rounded to T.
template <class T>
__device__ __forceinline__ void pack_weights(uint32_t (&packed)[kAttentionKeys / 16][4],
                                             const float (&weights)[kAttentionKeys / 8][4]) {
#pragma unroll
  for (int k = 0; k < kAttentionKeys / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float (&two)[4] = weights[2 * k + i / 2];
      packed[k][i] = register_of<T>(two[i % 2 * 2], two[i % 2 * 2 + 1]);
    }
  }
}

/// Where 8 values of a row lie in a tile of boxes in the 128-byte swizzle, which begins where 1024 divides.
__device__ inline int attention_place(int row, int eight) {
  return eight / 8 * static_cast<int>(kAttentionBoxBytes) / 2 + row * kAttentionBoxWidth + (eight % 8 ^ row % 8) * 8;
}

/// The warp's sums, each times its row's factor, to rows first + row to first + row + 15 of a (count, D) matrix. They
/// go by way of rows `row` to row + 15 of the block's tile `stage`, which nobody else reads or writes any more, so that
/// lanes store 16 neighbouring bytes each.
template <int D, class T>
__device__ inline void store_results(T* matrix, T* stage, const float (&sums)[D / 8][4], const float (&factors)[2],
                                     int first, int row, int count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      T* const eight = stage + attention_place(row + lane / 4 + 8 * half, n);
      reinterpret_cast<uint32_t*>(eight)[lane % 4] =
          register_of<T>(sums[n][2 * half] * factors[half], sums[n][2 * half + 1] * factors[half]);
    }
  }
  __syncwarp();
  constexpr int kEights = D / 8;
#pragma unroll
  for (int i = lane; i < 16 * kEights; i += 32) {
    const int at = row + i / kEights;
    if (first + at >= count) continue;
    packets_of<8>(matrix)[static_cast<int64_t>(first + at) * kEights + i % kEights] =
        *packets_of<8>(stage + attention_place(at, i % kEights));
  }
}

}  // namespace tenfold::kernels
