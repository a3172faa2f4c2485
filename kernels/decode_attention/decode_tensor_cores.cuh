#pragma once
// The rung on tensor cores. A warp has up to 16 query heads of a group as the 16 rows of mma.sync, and one page of 16
// keys at a time; its four warps take every fourth page. kernels/ptx.cuh has the layouts.

#include "decode_packets.cuh"
#include "kernels/ptx.cuh"

namespace tenfold::kernels {

inline constexpr int kMmaHeads = 16;

/// Where 8 values of a page in shared memory lie: the packets of a row are exchanged by an exclusive or with the row's
/// number, so that the eight rows of 16 bytes that ldmatrix reads at a time lie in different banks.
template <int D>
__device__ inline int page_place(int row, int eight) {
  return row * D + eight / 8 * 64 + (eight % 8 ^ row % 8) * 8;
}

/// Values of T in shared memory that a warp has to itself: two stages of a page of k and one of v.
template <int D>
inline constexpr int kWarpStages = 2 * 2 * kDecodePageKeys * D;

/// Floats from one head to the next where warps leave their sums: the four rows that a half of a warp stores at a time
/// lie in different banks.
template <int D>
inline constexpr int kMmaRowStride = D + 8;

/// Starts a warp's copies of one page, `count` keys of it, from k or from v; the rest becomes 0.
template <int D, class T>
__device__ inline void copy_page(T* to, const T* from, int count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < kDecodePageKeys * D / 8 / 32; ++n) {
    const int packet = lane + 32 * n, key = packet / (D / 8);
    cp_async<16>(to + page_place<D>(key, packet % (D / 8)), from + packet * 8, key < count ? 16 : 0);
  }
}

/// The 16 query heads as the left operand, D / 16 fragments: rows that the group lacks are 0.
template <int D, class T>
__device__ inline void load_heads(uint32_t (&q)[D / 16][4], const T* from, int heads) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto* words = reinterpret_cast<const uint32_t*>(from);
#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i % 2 * 8;
      q[d][i] = row < heads ? words[row * (D / 2) + 8 * d + i / 2 * 4 + lane % 4] : 0;
    }
  }
}

/// scores (16 heads, 16 keys) = q (16, D) * k (16, D)^T, k a page in shared memory.
template <class T, int D>
__device__ inline void score_page(float (&scores)[2][4], const uint32_t (&q)[D / 16][4], const T* k) {
  const int lane = static_cast<int>(threadIdx.x % 32), key = lane % 8 + lane / 16 * 8;
#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
    uint32_t b[4];
    ldmatrix_x4(b, k + page_place<D>(key, 2 * d + lane / 8 % 2));
    mma_m16n8k16<T>(scores[0], q[d], {b[0], b[1]}, scores[0]);
    mma_m16n8k16<T>(scores[1], q[d], {b[2], b[3]}, scores[1]);
  }
}

/// sums (16 heads, D) += weights (16, 16 keys), rounded to T, * v (16 keys, D), v a page in shared memory.
template <class T, int D>
__device__ inline void add_page(float (&sums)[D / 8][4], const float (&weights)[2][4], const T* v) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  uint32_t a[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = register_of<T>(weights[i / 2][i % 2 * 2], weights[i / 2][i % 2 * 2 + 1]);
#pragma unroll
  for (int d = 0; d < D / 8; d += 2) {
    uint32_t b[4];
    ldmatrix_x4_trans(b, v + page_place<D>(lane % 16, d + lane / 16));
    mma_m16n8k16<T>(sums[d], a, {b[0], b[1]}, sums[d]);
    mma_m16n8k16<T>(sums[d + 1], a, {b[2], b[3]}, sums[d + 1]);
  }
}

/// Combines over the four lanes that share their rows of a product.
template <class Combine>
__device__ inline float combine_four(float value, Combine combine) {
  value = combine(value, shuffle_xor(value, 1));
  return combine(value, shuffle_xor(value, 2));
}

/// Scores of a page to weights, of lane i for heads i / 4 and i / 4 + 8; what was summed before is scaled down where a
/// new largest score asks for it. `keys` of the 16 are there, at least one.
template <int D>
__device__ inline void softmax_page(float (&scores)[2][4], float (&sums)[D / 8][4], float (&largest)[2],
                                    float (&total)[2], float scale, int keys) {
  const int column = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float now = largest[half];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][2 * half + i % 2];
      score = i / 2 * 8 + column + i % 2 < keys ? score * scale : -INFINITY;
      now = fmaxf(now, score);
    }
    now = combine_four(now, Larger());
    const float base = base_of(now);
    if (__any_sync(0xffffffffU, now > largest[half])) {  // else the factor is 1 for all of the warp's heads
      const float shrink = exp_below(largest[half], base);
      total[half] *= shrink;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        sums[n][2 * half] *= shrink;
        sums[n][2 * half + 1] *= shrink;
      }
      largest[half] = now;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][2 * half + i % 2];
      score = exp_below(score, base);
      total[half] += score;  // of this lane's keys only, until the end
    }
  }
}

/// Rung 7: products by mma.sync, 16 heads by 16 keys at a time, also where a group has fewer heads and rows are 0: an
/// instruction for 8 keys, 16 values and 16 heads, where one on CUDA cores did 32 of those products. The next page is
/// on its way by cp.async, past the registers, while this one is worked on; its place in the pool was read a page
/// earlier. Memory moves what it moved in rung 6. What takes time is memory again, whatever the group.
template <class T, int D>
static __global__ void __launch_bounds__(kDecodeThreads) decode_tensor_cores(DecodeResult<T> to, DecodeInput<T> in) {
  __shared__ LargestAndSum states[kDecodeWarps * kMmaHeads];
  const BlockWork<kMmaHeads> work(in, to.splits);
  if (work.wrote_empty(to)) return;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  T *block = dynamic_shared<T>(), *stages = block + warp * kWarpStages<D>;
  const CacheRows<true> rows = cache_rows<true>(in, work.sequence, work.kv_head);
  const int end = work.piece.end;
  constexpr int kStep = kDecodeWarps * kDecodePageKeys, kStage = kWarpStages<D> / 2;

  uint32_t q[D / 16][4];
  load_heads<D>(q, in.q + work.first_head * D, work.heads);
  float sums[D / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
  int key = work.piece.first + warp * kDecodePageKeys, stage = 0;
  const auto row_of = [&](int of_key) { return of_key < end ? rows.row(of_key) : 0; };
  const auto start = [&](int of_stage, int64_t of_page, int count) {
    copy_page<D>(stages + of_stage * kStage, in.k + of_page * D, count);
    copy_page<D>(stages + of_stage * kStage + kDecodePageKeys * D, in.v + of_page * D, count);
  };
  if (key < end) start(stage, row_of(key), end - key);
  cp_async_commit();
  int64_t row = row_of(key + kStep);
#pragma unroll 1
  for (; key < end; key += kStep) {
    const int next = key + kStep;
    if (next < end) start(1 - stage, row, end - next);
    cp_async_commit();  // of nothing at the end, so that the wait below is always for all but one
    row = row_of(next + kStep);
    cp_async_wait<1>();
    __syncwarp();  // the other lanes' copies are there, too
    const T* k = stages + stage * kStage;
    float weights[2][4] = {};
    score_page<T, D>(weights, q, k);
    softmax_page<D>(weights, sums, largest, total, in.scale, end - key);
    add_page<T, D>(sums, weights, k + kDecodePageKeys * D);
    __syncwarp();  // nobody copies over a page that another lane still reads
    stage = 1 - stage;
  }

  // The sums of each warp's heads, in the memory of its stages: 16 rows of kMmaRowStride floats are less than that.
  static_assert(kMmaHeads * kMmaRowStride<D> * sizeof(float) <= kWarpStages<D> * sizeof(T));
  constexpr int kWarpFloats = static_cast<int>(kWarpStages<D> * sizeof(T) / sizeof(float));
  auto* of_warps = reinterpret_cast<float*>(block);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int head = lane / 4 + 8 * half;
    const LargestAndSum state{largest[half], combine_four(total[half], Add())};
    if (lane % 4 == 0) states[warp * kMmaHeads + head] = state;
    const int place = (warp * kWarpFloats + head * kMmaRowStride<D>) / 2 + lane % 4;  // in pairs
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const Packet<float, 2> neighbours{{sums[n][2 * half], sums[n][2 * half + 1]}};
      packets_of<2>(of_warps)[place + 4 * n] = neighbours;
    }
  }
  __syncthreads();
  write_result<D, kMmaHeads, kMmaRowStride<D>, kWarpFloats>(to, of_warps, states, work.first_head, work.heads,
                                                            work.split);
}

}  // namespace tenfold::kernels
