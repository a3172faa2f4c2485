#pragma once
// The ladder of C = A * B by work decomposition: rungs 0 to 3, in which a block works on one tile. split_k.h says what
// each rung is called; rungs 4 and 5 are in split_k_stream.cuh.

#include "split_k_tile.cuh"

namespace tenfold::kernels {

/// Rung 0: data parallel. A block computes a tile, all of its iterations. A C of fewer tiles than the GPU runs blocks
/// leaves the others idle, and of more tiles the last wave is as long as a full one, however few blocks are in it.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kSplitKThreads, kVectors ? 2 : 1)
    split_k_data_parallel(float* c, SplitKInput<T> in, SplitKSchedule schedule) {
  const TilePart part = piece_of_block(schedule, blockIdx.x);
  SplitKSums sum;
  split_k_multiply<kVectors>(sum, in, part);
  split_k_store<kVectors>(c, in, part.tile, sum);
}

/// Rung 1: split-K. Several blocks compute a tile, a piece of its iterations each, and write their sums to a matrix of
/// their own. As many times more blocks, the same loads in all; what is new is a float32 C for each piece, written here
/// and read by a second kernel.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kSplitKThreads, kVectors ? 2 : 1)
    split_k_to_workspace(float* workspace, SplitKInput<T> in, SplitKSchedule schedule) {
  const TilePart part = piece_of_block(schedule, blockIdx.x);
  SplitKSums sum;
  split_k_multiply<kVectors>(sum, in, part);
  const int64_t piece = blockIdx.x / schedule.tiles;
  split_k_store<kVectors>(workspace + piece * in.m * in.n, in, part.tile, sum);
}

/// The second kernel of rung 1: C is the sum of the pieces' matrices of `count` packets, always in the same order. A
/// thread for each packet, so that this fills the GPU whatever the tiles are.
template <int kValues>
static __global__ void split_k_sum(float* c, const float* workspace, int64_t count, int pieces) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  Packet<float, kValues> sum = packets_of<kValues>(workspace)[i];
#pragma unroll 4
  for (int piece = 1; piece < pieces; ++piece) {
    const Packet<float, kValues> more = packets_of<kValues>(workspace)[piece * count + i];
    for (int j = 0; j < kValues; ++j) sum.values[j] += more.values[j];
  }
  packets_of<kValues>(c)[i] = sum;
}

/// Rung 2: atomics. Every piece is added to C where it lies: no workspace, and nothing is read again by our
/// instructions; L2 adds. But C must be 0 before (split_k_zero), an atomic moves 4 bytes a lane, and the order of the
/// additions is that in which blocks end: the last bits of C differ from run to run.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kSplitKThreads, kVectors ? 2 : 1)
    split_k_atomics(float* c, SplitKInput<T> in, SplitKSchedule schedule) {
  const TilePart part = piece_of_block(schedule, blockIdx.x);
  SplitKSums sum;
  split_k_multiply<kVectors>(sum, in, part);
  const int row0 = static_cast<int>(part.tile / in.column_tiles * kSplitKTile),
            column0 = static_cast<int>(part.tile % in.column_tiles * kSplitKTile);
  split_k_each_pair(sum, in.m, in.n, row0, column0, [&](int64_t offset, float first, float second, bool both) {
    atomicAdd(c + offset, first);
    if (both) atomicAdd(c + offset + 1, second);
  });
}

static __global__ void split_k_zero(float* c, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) c[i] = 0;
}

/// Rung 3: last block. One kernel, and the same bits each time: every piece is left in the workspace as registers lie,
/// a counter of the tile is raised, and the block that raises it last finds all pieces there and adds them in the order
/// of the pieces. It sets the counter back. Fewer blocks add than in rung 1, one for each tile, but from L2 and without
/// a second launch.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kSplitKThreads, kVectors ? 2 : 1)
    split_k_last_block(float* c, float* workspace, unsigned* counters, SplitKInput<T> in, SplitKSchedule schedule) {
  const TilePart part = piece_of_block(schedule, blockIdx.x);
  SplitKSums sum;
  split_k_multiply<kVectors>(sum, in, part);
  split_k_leave(workspace, blockIdx.x, sum);
  __shared__ bool is_last;
  __syncthreads();  // all of the block have left their sums
  if (threadIdx.x == 0) {
    __threadfence();  // whoever sees this block counted must see them
    is_last = atomicAdd(&counters[part.tile], 1U) == schedule.pieces - 1;
    __threadfence();  // and the last block must not read sums from before it counted
  }
  __syncthreads();
  if (!is_last) return;

  split_k_take<false>(sum, workspace, part.tile);
  for (int64_t piece = 1; piece < schedule.pieces; ++piece)
    split_k_take<true>(sum, workspace, piece * schedule.tiles + part.tile);
  split_k_store<kVectors>(c, in, part.tile, sum);
  if (threadIdx.x == 0) counters[part.tile] = 0;
}

}  // namespace tenfold::kernels
