#pragma once
// The rungs that need no alignment: one query head for each block. decode_attention.h says what is computed.

#include "kernels/online_softmax.cuh"

namespace tenfold::kernels {

/// What all kernels are given. `scale` is 1 / sqrt(D); `pages` is null where the cache is contiguous.
template <class T>
struct DecodeInput {
  const T *q, *k, *v;
  const int *lengths, *pages;
  int heads, kv_heads, capacity, page_columns;
  float scale;
};

/// Keys that a sequence has.
template <class T>
__device__ inline int keys_of(const DecodeInput<T>& in, int64_t sequence) {
  return min(max(in.lengths[sequence], 0), in.capacity);
}

/// Where in k and v, in rows of D values, the keys of a sequence lie for one key/value head. The 16 keys from a
/// multiple of 16 on lie one after the other in a paged cache, too.
template <bool kPaged>
struct CacheRows {
  const int* pages;
  int64_t first;  ///< contiguous: the row of key 0; paged: of page 0 of the pool
  int64_t page_rows;
  __device__ int64_t row(int key) const {
    if constexpr (kPaged) return first + pages[key / kDecodePageKeys] * page_rows + key % kDecodePageKeys;
    return first + key;
  }
};
template <bool kPaged, class T>
__device__ inline CacheRows<kPaged> cache_rows(const DecodeInput<T>& in, int64_t sequence, int kv_head) {
  if constexpr (kPaged) {
    return {in.pages + sequence * in.page_columns, int64_t{kv_head} * kDecodePageKeys,
            int64_t{in.kv_heads} * kDecodePageKeys};
  }
  return {nullptr, (sequence * in.kv_heads + kv_head) * in.capacity, 0};
}

/// The query head of a block that has one: `head` of all batch * heads.
template <class T>
struct OneHead {
  int64_t head, sequence;
  int kv_head, keys;
  __device__ explicit OneHead(const DecodeInput<T>& in)
      : head(blockIdx.x),
        sequence(head / in.heads),
        kv_head(static_cast<int>(head % in.heads) / (in.heads / in.kv_heads)),
        keys(keys_of(in, sequence)) {}
};

// --- rungs 0 and 1: three passes -------------------------------------------------------------------------------------

/// Softmax of a row of scores in place, without the division, which is left for later; then the block's D threads
/// multiply with v, a column each. The second and third pass of rungs 0 and 1. `largest`: of the thread's own scores.
template <int D, class T>
__device__ inline void softmax_and_product(T* out, float* scores, const T* v, int keys, float largest) {
  const int thread = static_cast<int>(threadIdx.x);
  const float base = base_of(combine_block(largest, Larger()));
  float total = 0;
  for (int key = thread; key < keys; key += D) {
    const float weight = exp_below(scores[key], base);
    scores[key] = weight;
    total += weight;
  }
  total = combine_block(total, Add());  // its barriers: from here on all threads see all weights
  float sum = 0;
  for (int key = 0; key < keys; ++key) sum += scores[key] * to_float(v[int64_t{key} * D + thread]);
  out[thread] = from_float<T>(keys > 0 ? sum / total : 0);
}

/// Rung 0: a block of D threads has one query head. A thread multiplies the query with one key by itself and writes the
/// score to memory; the softmax and the product with v are passes of their own. The 32 lanes of a warp read 32 rows of
/// k, 2 bytes of each: 32 sectors for 64 wanted bytes, D times for 32 keys. v is read by neighbours, 2 sectors a
/// request.
template <class T, int D>
static __global__ void __launch_bounds__(D) decode_thread_keys(T* out, float* scores, DecodeInput<T> in) {
  const OneHead<T> at(in);
  const int64_t first = cache_rows<false>(in, at.sequence, at.kv_head).first * D;
  const T *q = in.q + at.head * D, *k = in.k + first;
  scores += at.head * in.capacity;
  float largest = -INFINITY;
  for (int key = static_cast<int>(threadIdx.x); key < at.keys; key += D) {
    float dot = 0;
    for (int d = 0; d < D; ++d) {
      const T of_query = q[d], of_key = k[int64_t{key} * D + d];
      dot += to_float(of_query) * to_float(of_key);
    }
    scores[key] = dot * in.scale;
    largest = fmaxf(largest, scores[key]);
  }
  softmax_and_product<D>(out + at.head * D, scores, in.v + first, at.keys, largest);
}

/// A row of D values, spread over a warp: lane i has values i, i + 32, ...
template <int D, class T>
__device__ inline void load_row(float (&values)[D / 32], const T* row) {
#pragma unroll
  for (int i = 0; i < D / 32; ++i) values[i] = to_float(row[threadIdx.x % 32 + 32 * i]);
}
/// The product of two such rows, in every lane.
template <int kValues>
__device__ inline float dot_of_warp(const float (&a)[kValues], const float (&b)[kValues]) {
  float dot = 0;
#pragma unroll
  for (int i = 0; i < kValues; ++i) dot += a[i] * b[i];
  return combine_warp(dot, Add());
}

/// Rung 1: a warp has a key. Its lanes read neighbours, 2 sectors for 64 bytes, and join their products in five
/// shuffles. The query stays in registers. All else is rung 0.
template <class T, int D>
static __global__ void __launch_bounds__(D) decode_warp_keys(T* out, float* scores, DecodeInput<T> in) {
  const OneHead<T> at(in);
  const int64_t first = cache_rows<false>(in, at.sequence, at.kv_head).first * D;
  scores += at.head * in.capacity;
  float q[D / 32], k[D / 32], largest = -INFINITY;
  load_row<D>(q, in.q + at.head * D);
  for (int key = static_cast<int>(threadIdx.x) / 32; key < at.keys; key += D / 32) {
    load_row<D>(k, in.k + first + int64_t{key} * D);
    const float score = dot_of_warp(q, k) * in.scale;
    if (threadIdx.x % 32 == 0) scores[key] = score;
    largest = fmaxf(largest, score);
  }
  softmax_and_product<D>(out + at.head * D, scores, in.v + first, at.keys, largest);
}

// --- what a block leaves ---------------------------------------------------------------------------------------------

inline constexpr int kDecodeWarps = 4, kDecodeThreads = 32 * kDecodeWarps;  // of a block, from rung 2 on

/// Where a block's result goes: to `out`, or, if a sequence's keys are split over blocks, to its part of the workspace,
/// not yet divided: sums (batch * heads, splits, D) and states (batch * heads, splits). Of a part without a key the sum
/// of exponentials is 0, and its sums are not written.
template <class T>
struct DecodeResult {
  T* out;
  float* sums;
  LargestAndSum* states;
  int splits;
};

/// Joins what the block's warps have of some query heads, and writes it. Of warp w and its row h, the sums begin at
/// sums[w * kWarpStride + h * kRowStride], and states[w * kRows + h] has their largest score and the sum of its
/// exponentials; a warp that had no key has {-INFINITY, 0} and zeros. By all threads of a block, after a barrier;
/// `first_head` is the one of row 0, of all batch * heads.
template <int D, int kRows, int kRowStride, int kWarpStride, class T>
__device__ inline void write_result(const DecodeResult<T>& to, const float* sums, const LargestAndSum* states,
                                    int64_t first_head, int heads, int split) {
  for (int i = static_cast<int>(threadIdx.x); i < heads * D; i += kDecodeThreads) {
    const int row = i / D, column = i % D;
    LargestAndSum of_warp[kDecodeWarps], all{-INFINITY, 0};
#pragma unroll
    for (int warp = 0; warp < kDecodeWarps; ++warp) {
      of_warp[warp] = states[warp * kRows + row];
      all.largest = fmaxf(all.largest, of_warp[warp].largest);
    }
    const float base = base_of(all.largest);
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kDecodeWarps; ++warp) {
      const float shrink = exp_below(of_warp[warp].largest, base);
      all.sum += of_warp[warp].sum * shrink;
      sum += sums[warp * kWarpStride + row * kRowStride + column] * shrink;
    }
    const int64_t head = first_head + row;
    if (to.splits == 1) {
      to.out[head * D + column] = from_float<T>(all.sum == 0 ? 0 : sum / all.sum);
    } else {
      to.sums[(head * to.splits + split) * D + column] = sum;
      if (column == 0) to.states[head * to.splits + split] = all;
    }
  }
}

// --- rung 2: online --------------------------------------------------------------------------------------------------

/// Rung 2: one pass. A warp takes every fourth key: score, its exponential, and the key's row of v at once. A new
/// largest score scales down what was summed so far (online_softmax.cuh). No score goes to memory, and nobody waits at
/// a barrier before the end, where the four warps' sums meet in shared memory. Of k and v the same bytes as before:
/// what goes is the scores, 4 bytes beside the 4 D of a key and its value, and two of three passes.
template <class T, int D, bool kPaged>
static __global__ void __launch_bounds__(kDecodeThreads) decode_online(T* out, DecodeInput<T> in) {
  __shared__ float of_warps[kDecodeWarps * D];
  __shared__ LargestAndSum states[kDecodeWarps];
  const OneHead<T> at(in);
  const CacheRows<kPaged> rows = cache_rows<kPaged>(in, at.sequence, at.kv_head);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float q[D / 32], k[D / 32], v[D / 32], sums[D / 32] = {}, largest = -INFINITY, total = 0;
  load_row<D>(q, in.q + at.head * D);
  for (int key = warp; key < at.keys; key += kDecodeWarps) {
    const int64_t row = rows.row(key) * D;
    load_row<D>(k, in.k + row);
    load_row<D>(v, in.v + row);  // on its way while the score is made
    const float score = dot_of_warp(q, k) * in.scale;
    const float now = fmaxf(largest, score), base = base_of(now);
    const float shrink = exp_below(largest, base), weight = exp_below(score, base);
    largest = now;
    total = total * shrink + weight;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) sums[i] = sums[i] * shrink + weight * v[i];
  }
#pragma unroll
  for (int i = 0; i < D / 32; ++i) of_warps[warp * D + lane + 32 * i] = sums[i];
  const LargestAndSum state{largest, total};
  if (lane == 0) states[warp] = state;
  __syncthreads();
  write_result<D, 1, D, D>(DecodeResult<T>{out, nullptr, nullptr, 1}, of_warps, states, at.head, 1, 0);
}

}  // namespace tenfold::kernels
