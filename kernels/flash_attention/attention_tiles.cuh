#pragma once
// What the attention kernels share: where a head lies, tiles of rows in shared memory, and products of such tiles in
// registers.

#include "kernels/rows.cuh"

namespace tenfold::kernels {

inline constexpr float kLog2E = 1.4426950408889634F, kLn2 = 0.6931471805599453F;

/// What all kernels are given. `scale` is 1 / sqrt(D); `packets`: every matrix begins at a multiple of 16 bytes.
template <class T>
struct AttentionInput {
  const T *q, *k, *v;
  int queries, keys;
  float scale;
  bool causal, packets;
};

/// The (rows, D) matrix of one head.
template <int D, class T>
__device__ inline T* of_head(T* all, int64_t head, int rows) {
  return all + head * rows * D;
}

/// Whether a query sees a key.
template <class T>
__device__ inline bool sees(const AttentionInput<T>& in, int query, int key) {
  return key < in.keys && (!in.causal || key <= query);
}

/// Keys that the queries before `end` see, all together.
template <class T>
__device__ inline int keys_seen(const AttentionInput<T>& in, int end) {
  return in.causal ? min(in.keys, end) : in.keys;
}

/// Two neighbours as one 8-byte word of shared memory, and four as one of 16.
__device__ inline const float2& two(const float* first) { return *reinterpret_cast<const float2*>(first); }
__device__ inline float4& four(float* first) { return *reinterpret_cast<float4*>(first); }
__device__ inline const float4& four(const float* first) { return *reinterpret_cast<const float4*>(first); }

/// Values 4 * i to 4 * i + 3, as floats; one access where the matrix begins at a packet.
template <class T>
__device__ inline float4 load_four(const T* matrix, int64_t i, bool packets) {
  if (packets) {
    const Packet<T, 4> p = packets_of<4>(matrix)[i];
    return {to_float(p.values[0]), to_float(p.values[1]), to_float(p.values[2]), to_float(p.values[3])};
  }
  const T* p = matrix + 4 * i;
  return {to_float(p[0]), to_float(p[1]), to_float(p[2]), to_float(p[3])};
}

template <class T>
__device__ inline void store_four(T* matrix, int64_t i, float4 values, bool packets) {
  const Packet<T, 4> p{from_float<T>(values.x), from_float<T>(values.y), from_float<T>(values.z),
                       from_float<T>(values.w)};
  if (packets) {
    packets_of<4>(matrix)[i] = p;
  } else {
#pragma unroll
    for (int n = 0; n < 4; ++n) matrix[4 * i + n] = p.values[n];
  }
}

/// Floats from one row of a tile to the next. Four more than a row has: eight lanes that read 16 bytes each of the same
/// column of eight rows then use all 32 banks, where they would all meet in four.
template <int D>
inline constexpr int kTileStride = D + 4;

/// Rows first to first + kRows - 1 of a (count, D) matrix to shared memory, as floats; 0 for rows that are not there.
/// By all threads of a one-dimensional block; lanes move neighbours.
template <int kRows, int D, class T>
__device__ inline void load_tile(float* tile, const T* matrix, int first, int count, bool packets) {
  constexpr int kFours = D / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kFours; i += static_cast<int>(blockDim.x)) {
    const int row = i / kFours, column = i % kFours;
    float4 values = {0, 0, 0, 0};
    if (first + row < count) values = load_four(matrix, static_cast<int64_t>(first + row) * kFours + column, packets);
    four(tile + row * kTileStride<D> + 4 * column) = values;
  }
}

// --- products in registers -------------------------------------------------------------------------------------------
// A warp works on 16 rows, each lane on four of them: row lane / 8 and every fourth from there. Where there are columns
// of scores, a lane has column lane % 8 and every eighth from there; where there are columns of a result, four
// neighbours and every 32nd.

inline constexpr int kWarpRows = 16;

/// The first row of this lane, in the block, and its first column of scores.
__device__ inline int lane_row() { return static_cast<int>(threadIdx.x / 32 * kWarpRows + threadIdx.x % 32 / 8); }
__device__ inline int lane_column() { return static_cast<int>(threadIdx.x % 8); }

/// Combines over the eight lanes that share their rows.
template <class Combine>
__device__ inline float combine_row(float value, Combine combine) {
#pragma unroll
  for (int lanes = 4; lanes > 0; lanes /= 2) value = combine(value, shuffle_xor(value, lanes));
  return value;
}

/// products[r][c] = row r of the lane times row c of another tile, both of length D: what a row of q and a row of k
/// give. `rows` and `columns` are the lane's first row in each tile. 4 + kColumns loads of 16 bytes for 16 * kColumns
/// multiply-adds.
template <int D, int kColumns>
__device__ inline void dot_products(float (&products)[4][kColumns], const float* rows, const float* columns) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) products[r][c] = 0;
  }
#pragma unroll 2
  for (int d = 0; d < D; d += 4) {
    float4 a[4], b[kColumns];
#pragma unroll
    for (int r = 0; r < 4; ++r) a[r] = four(rows + 4 * r * kTileStride<D> + d);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) b[c] = four(columns + 8 * c * kTileStride<D> + d);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        products[r][c] += a[r].x * b[c].x + a[r].y * b[c].y + a[r].z * b[c].z + a[r].w * b[c].w;
    }
  }
}

/// Floats from one row to the next of a tile of weights with kColumns columns: four rows of eight lanes then use all 32
/// banks.
template <int kColumns>
inline constexpr int kWeightStride = kColumns + 8;

/// The lane's weights to shared memory, where the other lanes of the warp find them; a __syncwarp() must follow.
template <int kColumns>
__device__ inline void store_weights(float* weights, const float (&values)[4][kColumns]) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      weights[(lane_row() + 4 * r) * kWeightStride<8 * kColumns> + lane_column() + 8 * c] = values[r][c];
  }
}

/// sums += weights * tile: weights (rows, kDepth) as store_weights() left them, tile (kDepth, D). 4 + D / 8 loads of 16
/// bytes for 2 * D multiply-adds.
template <int D, int kDepth>
__device__ inline void add_product(float4 (&sums)[4][D / 32], const float* weights, const float* tile) {
#pragma unroll 1  // more would take more registers than there are for D = 128
  for (int depth = 0; depth < kDepth; depth += 4) {
    float4 w[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) w[r] = four(weights + (lane_row() + 4 * r) * kWeightStride<kDepth> + depth);
    const float* from = tile + depth * kTileStride<D> + 4 * lane_column();
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      const float4 t0 = four(from + 32 * i), t1 = four(from + kTileStride<D> + 32 * i);
      const float4 t2 = four(from + 2 * kTileStride<D> + 32 * i), t3 = four(from + 3 * kTileStride<D> + 32 * i);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        sums[r][i].x += w[r].x * t0.x + w[r].y * t1.x + w[r].z * t2.x + w[r].w * t3.x;
        sums[r][i].y += w[r].x * t0.y + w[r].y * t1.y + w[r].z * t2.y + w[r].w * t3.y;
        sums[r][i].z += w[r].x * t0.z + w[r].y * t1.z + w[r].z * t2.z + w[r].w * t3.z;
        sums[r][i].w += w[r].x * t0.w + w[r].y * t1.w + w[r].z * t2.w + w[r].w * t3.w;
      }
    }
  }
}

__device__ inline float4 times(float4 a, float b) { return {a.x * b, a.y * b, a.z * b, a.w * b}; }

/// The lane's rows of a result, each times its factor, to rows first + ... of a (count, D) matrix; rows that are not
/// there are left out.
template <int D, class T>
__device__ inline void store_rows(T* matrix, const float4 (&sums)[4][D / 32], const float (&factors)[4], int first,
                                  int count, bool packets) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = first + lane_row() + 4 * r;
    if (row >= count) continue;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      store_four(matrix, static_cast<int64_t>(row) * (D / 4) + lane_column() + 8 * i, times(sums[r][i], factors[r]),
                 packets);
    }
  }
}

/// Rows of the tile that streams past: as many as leave room for the others in the 64 KiB that a block may have on
/// Turing.
template <int D>
inline constexpr int kStreamed = D == 128 ? 16 : 32;

}  // namespace tenfold::kernels
