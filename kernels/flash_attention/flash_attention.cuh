#pragma once
// The forward pass on CUDA cores. flash_attention.h says what is computed; a head is one of batch * heads.

#include "attention_tiles.cuh"
#include "kernels/online_softmax.cuh"

namespace tenfold::kernels {

// --- rung 0: materialised --------------------------------------------------------------------------------------------
// Three kernels, as a formula in a framework runs: every score goes to memory, and comes back twice for the softmax and
// once for the product. The matrices of scores are heads * queries * keys floats: with twice the length, four times the
// memory.

inline constexpr int kScoreTile = 32;

/// scores (heads, queries, keys) = scale * q k^T, -infinity where a query does not see a key. A thread per score; a
/// block has a tile of 32 x 32, and copies 32 columns of q and of k at a time to shared memory. The tile of k is
/// padded, since lanes read its columns.
template <class T>
static __global__ void attention_scores(float* scores, AttentionInput<T> in, int head_dim) {
  __shared__ float q_tile[kScoreTile][kScoreTile], k_tile[kScoreTile][kScoreTile + 1];
  const int row_tiles = (in.queries + kScoreTile - 1) / kScoreTile,
            column_tiles = (in.keys + kScoreTile - 1) / kScoreTile;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t head = blockIdx.x / column_tiles / row_tiles;
  const int first_query = static_cast<int>(blockIdx.x / column_tiles % row_tiles) * kScoreTile;
  const int first_key = static_cast<int>(blockIdx.x % column_tiles) * kScoreTile;
  const T *q = in.q + head * in.queries * head_dim, *k = in.k + head * in.keys * head_dim;
  float sum = 0;
  for (int d = 0; d < head_dim; d += kScoreTile) {
    q_tile[y][x] =
        first_query + y < in.queries ? to_float(q[static_cast<int64_t>(first_query + y) * head_dim + d + x]) : 0;
    k_tile[y][x] = first_key + y < in.keys ? to_float(k[static_cast<int64_t>(first_key + y) * head_dim + d + x]) : 0;
    __syncthreads();
    for (int i = 0; i < kScoreTile; ++i) sum += q_tile[y][i] * k_tile[x][i];
    __syncthreads();
  }
  const int query = first_query + y, key = first_key + x;
  if (query >= in.queries || key >= in.keys) return;
  scores[(head * in.queries + query) * in.keys + key] = sees(in, query, key) ? sum * in.scale : -INFINITY;
}

/// Softmax of each row of scores in place, and its logsumexp. A warp per row; the largest score and the sum are found
/// in one pass.
template <class T>
static __global__ void attention_softmax(float* scores, float* logsumexp, int64_t rows, AttentionInput<T> in) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;  // a whole warp leaves
  const int lane = static_cast<int>(threadIdx.x % 32);
  scores += row * in.keys;
  LargestAndSum found{-INFINITY, 0};
  for (int key = lane; key < in.keys; key += 32) found = JoinLargestAndSum()(found, {scores[key], 1.0F});
  found = combine_warp(found, JoinLargestAndSum());
  for (int key = lane; key < in.keys; key += 32) scores[key] = expf(scores[key] - found.largest) / found.sum;
  if (lane == 0) logsumexp[row] = found.largest + logf(found.sum);
}

/// out (heads, queries, head_dim) = weights * v. A thread per value of the result, in tiles as attention_scores() has
/// them.
template <class T>
static __global__ void attention_product(T* out, const float* weights, AttentionInput<T> in, int head_dim) {
  __shared__ float weight_tile[kScoreTile][kScoreTile], v_tile[kScoreTile][kScoreTile];
  const int row_tiles = (in.queries + kScoreTile - 1) / kScoreTile, column_tiles = head_dim / kScoreTile;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t head = blockIdx.x / column_tiles / row_tiles;
  const int query = static_cast<int>(blockIdx.x / column_tiles % row_tiles) * kScoreTile + y;
  const int column = static_cast<int>(blockIdx.x % column_tiles) * kScoreTile + x;
  const T* v = in.v + head * in.keys * head_dim;
  float sum = 0;
  for (int key = 0; key < in.keys; key += kScoreTile) {
    weight_tile[y][x] =
        query < in.queries && key + x < in.keys ? weights[(head * in.queries + query) * in.keys + key + x] : 0;
    v_tile[y][x] = key + y < in.keys ? to_float(v[static_cast<int64_t>(key + y) * head_dim + column]) : 0;
    __syncthreads();
    for (int i = 0; i < kScoreTile; ++i) sum += weight_tile[y][i] * v_tile[i][x];
    __syncthreads();
  }
  if (query < in.queries) out[(head * in.queries + query) * head_dim + column] = from_float<T>(sum);
}

// --- rung 1: online --------------------------------------------------------------------------------------------------

inline constexpr int kOnlineRows = 32, kOnlineKeys = 32, kOnlineLanes = 4;

/// Rung 1: no score is ever written. Four lanes hold a row of q and the result that belongs to it, a quarter each. Keys
/// come by in tiles of shared memory; each new score may be the largest so far, and then what was summed is scaled down
/// to it. Memory moves q and the results once, and keys and values once for every 32 queries. What costs now is shared
/// memory: two loads of 16 bytes for eight multiply-adds, and two exponentials and two shuffles for every score.
template <class T, int D>
static __global__ void __launch_bounds__(kOnlineRows* kOnlineLanes, 4)
    attention_online(T* out, float* logsumexp, AttentionInput<T> in) {
  constexpr int kFours = D / 4 / kOnlineLanes;  // of each lane; neighbouring lanes have neighbouring fours
  alignas(16) __shared__ float k_tile[kOnlineKeys * kTileStride<D>], v_tile[kOnlineKeys * kTileStride<D>];
  const int tiles = (in.queries + kOnlineRows - 1) / kOnlineRows;
  const int64_t head = blockIdx.x / tiles;
  const int query = static_cast<int>(blockIdx.x % tiles) * kOnlineRows + static_cast<int>(threadIdx.x) / kOnlineLanes;
  const int lane = static_cast<int>(threadIdx.x) % kOnlineLanes;
  const T *k = of_head<D>(in.k, head, in.keys), *v = of_head<D>(in.v, head, in.keys);
  const int64_t row = (head * in.queries + query) * (D / 4) + lane;  // in fours
  float4 q[kFours], sum[kFours];
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    sum[i] = {0, 0, 0, 0};
    q[i] = query < in.queries ? load_four(in.q, row + i * kOnlineLanes, in.packets) : sum[i];
  }
  float largest = -INFINITY, total = 0;
  for (int first = 0; first < in.keys; first += kOnlineKeys) {
    load_tile<kOnlineKeys, D>(k_tile, k, first, in.keys, in.packets);
    load_tile<kOnlineKeys, D>(v_tile, v, first, in.keys, in.packets);
    __syncthreads();
    const int count = min(kOnlineKeys, in.keys - first);
    for (int j = 0; j < count; ++j) {
      const float *k_row = k_tile + j * kTileStride<D> + 4 * lane, *v_row = v_tile + j * kTileStride<D> + 4 * lane;
      float score = 0;
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4 key = four(k_row + 4 * kOnlineLanes * i);
        score += q[i].x * key.x + q[i].y * key.y + q[i].z * key.z + q[i].w * key.w;
      }
      score += shuffle_xor(score, 1);
      score += shuffle_xor(score, 2);
      score = sees(in, query, first + j) ? score * in.scale : -INFINITY;
      const float now = fmaxf(largest, score);  // finite: every query sees key 0, which comes first
      const float shrink = expf(largest - now), weight = expf(score - now);
      largest = now;
      total = total * shrink + weight;
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4 value = four(v_row + 4 * kOnlineLanes * i);
        sum[i].x = sum[i].x * shrink + weight * value.x;
        sum[i].y = sum[i].y * shrink + weight * value.y;
        sum[i].z = sum[i].z * shrink + weight * value.z;
        sum[i].w = sum[i].w * shrink + weight * value.w;
      }
    }
    __syncthreads();  // nobody overwrites a tile that another still reads
  }
  if (query >= in.queries) return;
  if (lane == 0) logsumexp[head * in.queries + query] = largest + logf(total);
#pragma unroll
  for (int i = 0; i < kFours; ++i) store_four(out, row + i * kOnlineLanes, times(sum[i], 1 / total), in.packets);
}

// --- rung 2: tiles in registers --------------------------------------------------------------------------------------

inline constexpr int kQueryRows = 64;  // of a block of rung 2: four warps

/// Floats of dynamic shared memory: tiles of q, of k, of v, and the weights.
template <int D>
inline constexpr int kForwardFloats =
    (kQueryRows + 2 * kStreamed<D>)*kTileStride<D> + kQueryRows * kWeightStride<kStreamed<D>>;

/// Rung 2: a warp has 16 queries to itself, a lane a tile of 4 x 4 scores (4 x 2 for D = 128) and of 4 x D / 8 results:
/// in shared memory one load of 16 bytes serves 8 to 16 multiply-adds. Scores are rescaled once for a tile of keys and
/// not for each key; the weights go through shared memory, but only between lanes of a warp. With `causal`, tiles that
/// no query of the block sees are skipped: half of the work of a long sequence. Powers are of 2, which is what the
/// hardware has; the scale holds log2(e). Memory moves keys and values once for every 64 queries.
template <class T, int D>
static __global__ void __launch_bounds__(2 * kQueryRows, 2)
    attention_registers(T* out, float* logsumexp, AttentionInput<T> in) {
  constexpr int kKeys = kStreamed<D>, kColumns = kKeys / 8;
  float *q_tile = dynamic_shared<float>(), *k_tile = q_tile + kQueryRows * kTileStride<D>;
  float *v_tile = k_tile + kKeys * kTileStride<D>, *weights = v_tile + kKeys * kTileStride<D>;
  const int tiles = (in.queries + kQueryRows - 1) / kQueryRows;
  const int64_t head = blockIdx.x / tiles;
  const int first_query = static_cast<int>(blockIdx.x % tiles) * kQueryRows;
  const T *k = of_head<D>(in.k, head, in.keys), *v = of_head<D>(in.v, head, in.keys);
  const float scale = in.scale * kLog2E;
  load_tile<kQueryRows, D>(q_tile, of_head<D>(in.q, head, in.queries), first_query, in.queries, in.packets);

  float4 sums[4][D / 32] = {};
  float largest[4], total[4] = {};  // total: of this lane's columns only, until the end
#pragma unroll
  for (int r = 0; r < 4; ++r) largest[r] = -INFINITY;
  const int end = keys_seen(in, first_query + kQueryRows);
  for (int first = 0; first < end; first += kKeys) {
    load_tile<kKeys, D>(k_tile, k, first, in.keys, in.packets);
    load_tile<kKeys, D>(v_tile, v, first, in.keys, in.packets);
    __syncthreads();
    float scores[4][kColumns];
    dot_products<D>(scores, q_tile + lane_row() * kTileStride<D>, k_tile + lane_column() * kTileStride<D>);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float now = largest[r];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const bool seen = sees(in, first_query + lane_row() + 4 * r, first + lane_column() + 8 * c);
        scores[r][c] = seen ? scores[r][c] * scale : -INFINITY;
        now = fmaxf(now, scores[r][c]);
      }
      now = combine_row(now, Larger());  // finite: every query sees key 0, which is in the first tile
      const float shrink = exp2f(largest[r] - now);
      largest[r] = now;
      total[r] *= shrink;
#pragma unroll
      for (int i = 0; i < D / 32; ++i) sums[r][i] = times(sums[r][i], shrink);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        scores[r][c] = exp2f(scores[r][c] - now);
        total[r] += scores[r][c];
      }
    }
    store_weights(weights, scores);
    __syncwarp();
    add_product<D, kKeys>(sums, weights, v_tile);
    __syncthreads();
  }
  float factors[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    total[r] = combine_row(total[r], Add());
    factors[r] = 1 / total[r];
    const int query = first_query + lane_row() + 4 * r;
    if (lane_column() == 0 && query < in.queries)
      logsumexp[head * in.queries + query] = (largest[r] + log2f(total[r])) * kLn2;
  }
  store_rows<D>(of_head<D>(out, head, in.queries), sums, factors, first_query, in.queries, in.packets);
}

}  // namespace tenfold::kernels
