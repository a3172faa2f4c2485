#pragma once
// The backward pass on CUDA cores. With S the scores, P = exp(S - logsumexp) and G the gradient of the result O:
//   dV = P^T G,   dP = G V^T,   dS = P (dP - D) with D the sum over a row of G O,   dQ = scale dS K,   dK = scale dS^T
//   Q.
// P is computed again from q, k and logsumexp, in tiles; D, one number for each query, is what lets dS be computed in
// tiles too: it is the sum over a row of P dP, because O = P V.

#include "attention_tiles.cuh"

namespace tenfold::kernels {

/// What the backward kernels are given besides.
template <class T>
struct AttentionGradient {
  const T* grad_out;
  const float *logsumexp, *dots;  ///< (heads, queries) each
};

/// dots (rows) = sum over a row of grad_out * out. A warp per row.
template <class T>
static __global__ void attention_dots(float* dots, const T* grad_out, const T* out, int64_t rows, int head_dim) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;  // a whole warp leaves
  const int lane = static_cast<int>(threadIdx.x % 32);
  float sum = 0;
  for (int d = lane; d < head_dim; d += 32)
    sum += to_float(grad_out[row * head_dim + d]) * to_float(out[row * head_dim + d]);
  sum = combine_warp(sum, Add());
  if (lane == 0) dots[row] = sum;
}

inline constexpr int kGradientRows = 32;  // of a block: two warps

/// Floats of dynamic shared memory: two tiles that stay, two that stream past, and `weights` tiles of weights.
template <int D>
constexpr int gradient_floats(int weights) {
  return 2 * (kGradientRows + kStreamed<D>)*kTileStride<D> + weights * kGradientRows * kWeightStride<kStreamed<D>>;
}

/// grad_k and grad_v: a block has 32 keys and goes over the queries, so that nobody else adds to its rows. With
/// `causal` it begins at the first query that sees one of them. A row of its scores is a key, a column a query.
template <class T, int D>
static __global__ void __launch_bounds__(2 * kGradientRows, 4)
    attention_gradient_keys(T* grad_k, T* grad_v, AttentionInput<T> in, AttentionGradient<T> from) {
  constexpr int kQueries = kStreamed<D>, kColumns = kQueries / 8;
  float *k_tile = dynamic_shared<float>(), *v_tile = k_tile + kGradientRows * kTileStride<D>;
  float *q_tile = v_tile + kGradientRows * kTileStride<D>, *grad_tile = q_tile + kQueries * kTileStride<D>;
  float *p_tile = grad_tile + kQueries * kTileStride<D>, *ds_tile = p_tile + kGradientRows * kWeightStride<kQueries>;
  const int tiles = (in.keys + kGradientRows - 1) / kGradientRows;
  const int64_t head = blockIdx.x / tiles;
  const int first_key = static_cast<int>(blockIdx.x % tiles) * kGradientRows;
  const T *q = of_head<D>(in.q, head, in.queries), *grad_out = of_head<D>(from.grad_out, head, in.queries);
  const float *logsumexp = from.logsumexp + head * in.queries, *dots = from.dots + head * in.queries;
  load_tile<kGradientRows, D>(k_tile, of_head<D>(in.k, head, in.keys), first_key, in.keys, in.packets);
  load_tile<kGradientRows, D>(v_tile, of_head<D>(in.v, head, in.keys), first_key, in.keys, in.packets);

  float4 k_sums[4][D / 32] = {}, v_sums[4][D / 32] = {};
  for (int first = in.causal ? first_key / kQueries * kQueries : 0; first < in.queries; first += kQueries) {
    load_tile<kQueries, D>(q_tile, q, first, in.queries, in.packets);
    load_tile<kQueries, D>(grad_tile, grad_out, first, in.queries, in.packets);
    __syncthreads();
    float p[4][kColumns], ds[4][kColumns];
    dot_products<D>(p, k_tile + lane_row() * kTileStride<D>, q_tile + lane_column() * kTileStride<D>);
    dot_products<D>(ds, v_tile + lane_row() * kTileStride<D>, grad_tile + lane_column() * kTileStride<D>);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int query = first + lane_column() + 8 * c;
      const float shift = query < in.queries ? logsumexp[query] : 0, dot = query < in.queries ? dots[query] : 0;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const bool seen = query < in.queries && sees(in, query, first_key + lane_row() + 4 * r);
        p[r][c] = seen ? exp2f((p[r][c] * in.scale - shift) * kLog2E) : 0;
        ds[r][c] = p[r][c] * (ds[r][c] - dot);
      }
    }
    store_weights(p_tile, p);
    store_weights(ds_tile, ds);
    __syncwarp();
    add_product<D, kQueries>(v_sums, p_tile, grad_tile);
    add_product<D, kQueries>(k_sums, ds_tile, q_tile);
    __syncthreads();
  }
  const float scales[4] = {in.scale, in.scale, in.scale, in.scale}, ones[4] = {1, 1, 1, 1};
  store_rows<D>(of_head<D>(grad_k, head, in.keys), k_sums, scales, first_key, in.keys, in.packets);
  store_rows<D>(of_head<D>(grad_v, head, in.keys), v_sums, ones, first_key, in.keys, in.packets);
}

/// grad_q: a block has 32 queries and goes over the keys that they see.
template <class T, int D>
static __global__ void __launch_bounds__(2 * kGradientRows, 4)
    attention_gradient_queries(T* grad_q, AttentionInput<T> in, AttentionGradient<T> from) {
  constexpr int kKeys = kStreamed<D>, kColumns = kKeys / 8;
  float *q_tile = dynamic_shared<float>(), *grad_tile = q_tile + kGradientRows * kTileStride<D>;
  float *k_tile = grad_tile + kGradientRows * kTileStride<D>, *v_tile = k_tile + kKeys * kTileStride<D>;
  float* ds_tile = v_tile + kKeys * kTileStride<D>;
  const int tiles = (in.queries + kGradientRows - 1) / kGradientRows;
  const int64_t head = blockIdx.x / tiles;
  const int first_query = static_cast<int>(blockIdx.x % tiles) * kGradientRows;
  const T *k = of_head<D>(in.k, head, in.keys), *v = of_head<D>(in.v, head, in.keys);
  load_tile<kGradientRows, D>(q_tile, of_head<D>(in.q, head, in.queries), first_query, in.queries, in.packets);
  load_tile<kGradientRows, D>(grad_tile, of_head<D>(from.grad_out, head, in.queries), first_query, in.queries,
                              in.packets);
  float shift[4], dot[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int query = first_query + lane_row() + 4 * r;
    shift[r] = query < in.queries ? from.logsumexp[head * in.queries + query] : 0;
    dot[r] = query < in.queries ? from.dots[head * in.queries + query] : 0;
  }

  float4 sums[4][D / 32] = {};
  const int end = keys_seen(in, first_query + kGradientRows);
  for (int first = 0; first < end; first += kKeys) {
    load_tile<kKeys, D>(k_tile, k, first, in.keys, in.packets);
    load_tile<kKeys, D>(v_tile, v, first, in.keys, in.packets);
    __syncthreads();
    float p[4][kColumns], ds[4][kColumns];
    dot_products<D>(p, q_tile + lane_row() * kTileStride<D>, k_tile + lane_column() * kTileStride<D>);
    dot_products<D>(ds, grad_tile + lane_row() * kTileStride<D>, v_tile + lane_column() * kTileStride<D>);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const bool seen = sees(in, first_query + lane_row() + 4 * r, first + lane_column() + 8 * c);
        const float weight = seen ? exp2f((p[r][c] * in.scale - shift[r]) * kLog2E) : 0;
        ds[r][c] = weight * (ds[r][c] - dot[r]);
      }
    }
    store_weights(ds_tile, ds);
    __syncwarp();
    add_product<D, kKeys>(sums, ds_tile, k_tile);
    __syncthreads();
  }
  const float scales[4] = {in.scale, in.scale, in.scale, in.scale};
  store_rows<D>(of_head<D>(grad_q, head, in.queries), sums, scales, first_query, in.queries, in.packets);
}

}  // namespace tenfold::kernels
