#pragma once
// Attention on tensor cores, forward and backward, for __half and __nv_bfloat16. The softmax and all sums stay in
// float.

#include "attention_mma.cuh"
#include "flash_attention_backward.cuh"

namespace tenfold::kernels {

inline constexpr int kMmaRows = 64;  // of a block: 16 for each warp, or 32
inline constexpr int kMmaStep =
    32;  // rows that stream past in a backward pass: two sums of (16, D) leave no registers for more

/// Keys of a tile in the forward pass: with 32 rows a warp, half as many, so that as many scores stay in registers.
template <int kGroups>
inline constexpr int kMmaKeys = 64 / kGroups;

/// Whether a warp keeps its queries in registers in the forward pass; else ldmatrix brings them again for each tile.
/// Not 32 of 128 values, for which there are none, and not 16 of 64, which would cost an SM one of four blocks.
template <int D, int kGroups>
inline constexpr bool kQueriesStay = D == 32 || D * kGroups == 128;

/// Blocks of a forward pass that an SM must have registers for.
template <int D, int kGroups>
inline constexpr int kMmaForwardBlocks = D == 32 ? 4 : 2;

/// Values of dynamic shared memory: q, and a tile of k and of v, or two each; two tiles that stay, and two each of two
/// that stream past.
template <int D, bool kAhead, int kGroups>
inline constexpr int kMmaForwardValues = (kGroups * kMmaRows + (kAhead ? 4 : 2) * kMmaKeys<kGroups>)*D;
template <int D>
inline constexpr int kMmaGradientValues = (2 * kMmaRows + 4 * kMmaStep) * D;

/// Blocks of a backward pass that an SM must have registers for: with a smaller D, shared memory has room for more.
template <int D>
inline constexpr int kMmaGradientBlocks = D == 128  ? 2
                                          : D == 64 ? 3
                                                    : 4;

/// Rung 3: the same loop on tensor cores. A warp makes 16 x 64 scores and 16 x D results with mma.sync; ldmatrix brings
/// the operands from tiles of 16-bit values, half the bytes. A tile is copied past the registers (cp.async), and the
/// block waits for it.
///
/// Rung 4, `kAhead`: while a tile is worked on, the next one is on its way to the other half of shared memory. Nobody
/// waits, and one barrier for each tile is enough, instead of two.
///
/// Rung 5, two groups of 16 rows a warp: what ldmatrix brings of keys and values serves four products instead of two,
/// so that shared memory has two thirds as much to do for the same arithmetic.
template <class T, int D, bool kAhead, int kGroups>
static __global__ void __launch_bounds__(kMmaThreads, kMmaForwardBlocks<D, kGroups>)
    attention_tensor_cores(T* out, float* logsumexp, AttentionInput<T> in) {
  constexpr int kKeys = kMmaKeys<kGroups>, kTile = kKeys * D, kTiles = kKeys / 8;
  constexpr int kRows = kGroups * kMmaRows, kHalves = 2 * kGroups;  // a lane has two rows of each group
  T *q_tile = dynamic_shared<T>(), *k_tiles = q_tile + kRows * D, *v_tiles = k_tiles + (kAhead ? 2 : 1) * kTile;
  const int tiles = (in.queries + kRows - 1) / kRows;
  const int64_t head = blockIdx.x / tiles;
  // Under a causal mask the last queries see most keys: the longest work of each head first.
  const int first_query = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * kRows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kGroups, lane = static_cast<int>(threadIdx.x % 32);
  const int query = first_query + warp_row + lane / 4;  // and the eighth from there, and so on
  const T *k = of_head<D>(in.k, head, in.keys), *v = of_head<D>(in.v, head, in.keys);
  const float scale = in.scale * kLog2E;
  copy_tile<kRows, D>(q_tile, of_head<D>(in.q, head, in.queries), first_query, in.queries, in.packets);
  const auto start = [&](int half, int first) {
    copy_tile<kKeys, D>(k_tiles + half * kTile, k, first, in.keys, in.packets);
    copy_tile<kKeys, D>(v_tiles + half * kTile, v, first, in.keys, in.packets);
    cp_async_commit();
  };
  if constexpr (kAhead) start(0, 0);

  uint32_t q[kQueriesStay<D, kGroups> ? D / 16 : 1][kGroups][4];
  float sums[kGroups * D / 8][4] = {};
  float largest[kHalves], total[kHalves] = {};  // total: of this lane's columns only, until the end
#pragma unroll
  for (float& most : largest) most = -INFINITY;
  const int end = keys_seen(in, first_query + kRows);
  int now = 0;
  for (int first = 0; first < end; first += kKeys) {
    if constexpr (!kAhead) {
      __syncthreads();  // nobody reads the last tile any more
      start(0, first);
    }
    cp_async_wait<0>();
    __syncthreads();  // this tile is there for all; ahead, nobody reads the one before it any more either
    if (kAhead && first + kKeys < end) start(1 - now, first + kKeys);
    // A block of 128 queries goes on to keys that the rows of its first warps do not see.
    if (kGroups == 1 || !in.causal || first < first_query + warp_row + 16 * kGroups) {
      float scores[kGroups * kTiles][4];
      if constexpr (kQueriesStay<D, kGroups>) {
        if (first == 0) {
#pragma unroll
          for (int d = 0; d < D; d += 16) load_rows<D>(q[d / 16], q_tile + warp_row * D, d, lane % 16, lane / 16);
        }
        mma_dots<D, kGroups>(scores, q, k_tiles + now * kTile);
      } else {
        mma_dots<D, kGroups>(scores, q_tile + warp_row * D, k_tiles + now * kTile);
      }
      if (first + kKeys > in.keys || (in.causal && first + kKeys > first_query)) {  // else all of the tile is seen
#pragma unroll
        for (int n = 0; n < kGroups * kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (!sees(in, query + n / kTiles * 16 + i / 2 * 8, first + 8 * (n % kTiles) + lane % 4 * 2 + i % 2))
              scores[n][i] = -INFINITY;
          }
        }
      }
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const int group = half / 2,
                  side = half % 2 * 2;  // a lane's two columns of a row: scores[...][side], [side + 1]
        float most = largest[half];
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const float (&two)[4] = scores[group * kTiles + n];
          most = fmaxf(most, fmaxf(two[side], two[side + 1]));
        }
        most = combine_quad(most, Larger());  // finite: every query sees key 0, which is in the first tile
        if (__any_sync(0xffffffffU, most > largest[half])) {  // else the factor is 1 in all of the warp's rows
          const float shrink = exp2_approx((largest[half] - most) * scale);
          total[half] *= shrink;
#pragma unroll
          for (int n = 0; n < D / 8; ++n) {
            sums[group * (D / 8) + n][side] *= shrink;
            sums[group * (D / 8) + n][side + 1] *= shrink;
          }
        }
        const float shift = most * scale;
        largest[half] = most;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& score = scores[group * kTiles + n][side + i];
            score = exp2_approx(score * scale - shift);
            total[half] += score;
          }
        }
      }
      mma_add<D, kGroups>(sums, scores, v_tiles + now * kTile);
    }
    if (kAhead) now = 1 - now;
  }
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    total[half] = combine_quad(total[half], Add());
    const int row = query + 8 * half;
    if (lane % 4 == 0 && row < in.queries)
      logsumexp[head * in.queries + row] = (largest[half] * scale + log2f(total[half])) * kLn2;
    total[half] = 1 / total[half];
  }
  mma_store<D>(of_head<D>(out, head, in.queries), q_tile + warp_row * D, sums, total, first_query + warp_row,
               in.queries, in.packets);
}

/// attention_gradient_keys() on tensor cores: a block has 64 keys, a warp 16 of them, and 32 queries at a time stream
/// past.
template <class T, int D>
static __global__ void __launch_bounds__(kMmaThreads, kMmaGradientBlocks<D>)
    attention_gradient_keys_tensor_cores(T* grad_k, T* grad_v, AttentionInput<T> in, AttentionGradient<T> from) {
  constexpr int kTile = kMmaStep * D, kTiles = kMmaStep / 8;
  T *k_tile = dynamic_shared<T>(), *v_tile = k_tile + kMmaRows * D;
  T *q_tiles = v_tile + kMmaRows * D, *grad_tiles = q_tiles + 2 * kTile;
  float* numbers = reinterpret_cast<float*>(grad_tiles + 2 * kTile);  // twice: kMmaStep of logsumexp, as many of dots
  const int tiles = (in.keys + kMmaRows - 1) / kMmaRows;
  const int64_t head = blockIdx.x / tiles;
  const int first_key = static_cast<int>(blockIdx.x % tiles) * kMmaRows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, lane = static_cast<int>(threadIdx.x % 32);
  const int key = first_key + warp_row + lane / 4;  // and the eighth from there
  const T *q = of_head<D>(in.q, head, in.queries), *grad_out = of_head<D>(from.grad_out, head, in.queries);
  const float* number = (threadIdx.x < kMmaStep ? from.logsumexp : from.dots) + head * in.queries;
  const float scale = in.scale * kLog2E;
  const auto start = [&](int half, int first) {
    copy_tile<kMmaStep, D>(q_tiles + half * kTile, q, first, in.queries, in.packets);
    copy_tile<kMmaStep, D>(grad_tiles + half * kTile, grad_out, first, in.queries, in.packets);
    if (threadIdx.x < 2 * kMmaStep) {
      const int query = first + static_cast<int>(threadIdx.x % kMmaStep);
      cp_async<4>(numbers + half * 2 * kMmaStep + threadIdx.x, number + query, query < in.queries ? 4 : 0);
    }
    cp_async_commit();
  };
  const int begin = in.causal ? first_key : 0;  // the first query that sees one of the keys
  if (begin < in.queries) {                     // else the loop below does not wait for what was begun here
    copy_tile<kMmaRows, D>(k_tile, of_head<D>(in.k, head, in.keys), first_key, in.keys, in.packets);
    copy_tile<kMmaRows, D>(v_tile, of_head<D>(in.v, head, in.keys), first_key, in.keys, in.packets);
    start(0, begin);
  }

  float k_sums[D / 8][4] = {}, v_sums[D / 8][4] = {};
  int now = 0;
  for (int first = begin; first < in.queries; first += kMmaStep) {
    cp_async_wait<0>();
    __syncthreads();
    if (first + kMmaStep < in.queries) start(1 - now, first + kMmaStep);
    // Else no query has come yet that sees one of this warp's keys.
    if (!in.causal || first + kMmaStep > first_key + warp_row) {
      float p[kTiles][4], ds[kTiles][4];
      mma_dots<D>(p, k_tile + warp_row * D, q_tiles + now * kTile);
      mma_dots<D>(ds, v_tile + warp_row * D, grad_tiles + now * kTile);
      // Else all of the weights count; those of keys beyond the last are stored nowhere.
      if (first + kMmaStep > in.queries || (in.causal && first + 1 < first_key + kMmaRows)) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int query = first + 8 * n + lane % 4 * 2 + i % 2, least = in.causal ? key + i / 2 * 8 : 0;
            p[n][i] = query < least || query >= in.queries ? -INFINITY : p[n][i];
          }
        }
      }
      const float* of_lane = numbers + now * 2 * kMmaStep + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float2 sums = two(of_lane + 8 * n), dots = two(of_lane + kMmaStep + 8 * n);
        const float shift[2] = {sums.x * kLog2E, sums.y * kLog2E}, dot[2] = {dots.x, dots.y};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          p[n][i] = exp2_approx(p[n][i] * scale - shift[i % 2]);
          ds[n][i] = p[n][i] * (ds[n][i] - dot[i % 2]);
        }
      }
      mma_add<D>(v_sums, p, grad_tiles + now * kTile);
      mma_add<D>(k_sums, ds, q_tiles + now * kTile);
    }
    now = 1 - now;
  }
  mma_store<D>(of_head<D>(grad_k, head, in.keys), k_tile + warp_row * D, k_sums, {in.scale, in.scale},
               first_key + warp_row, in.keys, in.packets);
  mma_store<D>(of_head<D>(grad_v, head, in.keys), v_tile + warp_row * D, v_sums, {1, 1}, first_key + warp_row, in.keys,
               in.packets);
}

/// attention_gradient_queries() on tensor cores: a block has 64 queries, and 32 keys at a time stream past.
template <class T, int D>
static __global__ void __launch_bounds__(kMmaThreads, kMmaGradientBlocks<D>)
    attention_gradient_queries_tensor_cores(T* grad_q, AttentionInput<T> in, AttentionGradient<T> from) {
  constexpr int kTile = kMmaStep * D, kTiles = kMmaStep / 8;
  T *q_tile = dynamic_shared<T>(), *grad_tile = q_tile + kMmaRows * D;
  T *k_tiles = grad_tile + kMmaRows * D, *v_tiles = k_tiles + 2 * kTile;
  const int tiles = (in.queries + kMmaRows - 1) / kMmaRows;
  const int64_t head = blockIdx.x / tiles;
  // Under a causal mask the last queries see most keys: the longest work of each head first.
  const int first_query = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * kMmaRows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, lane = static_cast<int>(threadIdx.x % 32);
  const int query = first_query + warp_row + lane / 4;  // and the eighth from there
  const T *k = of_head<D>(in.k, head, in.keys), *v = of_head<D>(in.v, head, in.keys);
  copy_tile<kMmaRows, D>(q_tile, of_head<D>(in.q, head, in.queries), first_query, in.queries, in.packets);
  copy_tile<kMmaRows, D>(grad_tile, of_head<D>(from.grad_out, head, in.queries), first_query, in.queries, in.packets);
  copy_tile<kMmaStep, D>(k_tiles, k, 0, in.keys, in.packets);
  copy_tile<kMmaStep, D>(v_tiles, v, 0, in.keys, in.packets);
  cp_async_commit();
  float shift[2], dot[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + 8 * half;
    shift[half] = row < in.queries ? from.logsumexp[head * in.queries + row] * kLog2E : 0;
    dot[half] = row < in.queries ? from.dots[head * in.queries + row] : 0;
  }

  const float scale = in.scale * kLog2E;
  float sums[D / 8][4] = {};
  const int end = keys_seen(in, first_query + kMmaRows);
  int now = 0;
  for (int first = 0; first < end; first += kMmaStep) {
    cp_async_wait<0>();
    __syncthreads();
    if (first + kMmaStep < end) {
      copy_tile<kMmaStep, D>(k_tiles + (1 - now) * kTile, k, first + kMmaStep, in.keys, in.packets);
      copy_tile<kMmaStep, D>(v_tiles + (1 - now) * kTile, v, first + kMmaStep, in.keys, in.packets);
      cp_async_commit();
    }
    // Else the diagonal is past this warp's rows, though not yet past the last warp's.
    if (!in.causal || first < first_query + warp_row + 16) {
      float p[kTiles][4], ds[kTiles][4];
      mma_dots<D>(p, q_tile + warp_row * D, k_tiles + now * kTile);
      mma_dots<D>(ds, grad_tile + warp_row * D, v_tiles + now * kTile);
      if (first + kMmaStep > in.keys ||
          (in.causal && first + kMmaStep > first_query)) {  // else all of the tile is seen
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (!sees(in, query + i / 2 * 8, first + 8 * n + lane % 4 * 2 + i % 2)) p[n][i] = -INFINITY;
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) ds[n][i] = exp2_approx(p[n][i] * scale - shift[i / 2]) * (ds[n][i] - dot[i / 2]);
      }
      mma_add<D>(sums, ds, k_tiles + now * kTile);
    }
    now = 1 - now;
  }
  mma_store<D>(of_head<D>(grad_q, head, in.queries), q_tile + warp_row * D, sums, {in.scale, in.scale},
               first_query + warp_row, in.queries, in.packets);
}

}  // namespace tenfold::kernels
