#pragma once
// Rungs 4 and 5 of the ladder of split_k.cuh: a fixed number of blocks, each of which works through its share.

#include "split_k_tile.cuh"

namespace tenfold::kernels {

/// Leaves a part that does not begin its tile in the slot of this share, for the share that does, and raises its flag.
__device__ inline void split_k_leave_for_owner(float* workspace, unsigned* flags, int64_t share,
                                               const SplitKSums& sum) {
  split_k_leave(workspace, share, sum);
  __syncthreads();  // all of the block have left their sums
  if (threadIdx.x == 0) {
    __threadfence();  // whoever sees the flag must see them
    atomicExch(&flags[share], 1U);
  }
}

/// Waits for a share's flag, takes it down, and adds what the share has left.
__device__ inline void split_k_add_share(SplitKSums& sum, float* workspace, unsigned* flags, int64_t share) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&flags[share], 1U, 0U) == 0U) {
    }
    __threadfence();  // the sums must not be read from before the flag
  }
  __syncthreads();
  split_k_take<true>(sum, workspace, share);
}

/// A block's share of the line of iterations. It may begin within a tile, go on over whole ones and end within another.
/// Whoever computes the first iteration of a tile owns it, adds what the next shares have left of it, in their order,
/// and stores it. A share begins with what it leaves to others and ends with what it may have to wait for: by then the
/// others have long left it, as all shares take as long.
template <bool kVectors, class T>
__device__ inline void split_k_work_on_share(float* c, float* workspace, unsigned* flags, const SplitKInput<T>& in,
                                             const SplitKSchedule& schedule) {
  const int64_t share = share_of_block(schedule, blockIdx.x);
  const IterationRange range = range_of(schedule.line(), schedule.blocks, share);
  for (int64_t at = range.begin; at < range.end;) {
    const TilePart part = part_at(schedule, at, range.end);
    at += part.end - part.begin;
    SplitKSums sum;
    split_k_multiply<kVectors>(sum, in, part);
    if (part.begin > 0) {
      split_k_leave_for_owner(workspace, flags, share, sum);
    } else {
      if (part.end < schedule.depth) {
        const int64_t last = range_with(schedule.line(), schedule.blocks, (part.tile + 1) * schedule.depth - 1);
        for (int64_t other = share + 1; other <= last; ++other) split_k_add_share(sum, workspace, flags, other);
      }
      split_k_store<kVectors>(c, in, part.tile, sum);
    }
    __syncthreads();  // nobody copies the next part over stages that another still reads
  }
}

/// Rung 4: stream-K. As many blocks as run at a time, and an equal share of all iterations for each, whatever the tiles
/// are: shares differ by one iteration. A block leaves one partial tile at most, so that the workspace grows with the
/// GPU and not with the matrix. What it costs is the waiting, and that blocks are at different depths at a time: they
/// no longer share A and B in L2 as tiles of a wave do.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kSplitKThreads, kVectors ? 2 : 1)
    split_k_stream(float* c, float* workspace, unsigned* flags, SplitKInput<T> in, SplitKSchedule schedule) {
  split_k_work_on_share<kVectors>(c, workspace, flags, in, schedule);
}

/// Rung 5: two tile. Stream-K only for the tiles that do not fill a wave, together with those of one wave that does;
/// then whole tiles, in waves that begin together. A share is longer than a tile, so that a tile lies in two shares at
/// most and its owner waits for one block.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kSplitKThreads, kVectors ? 2 : 1)
    split_k_two_tile(float* c, float* workspace, unsigned* flags, SplitKInput<T> in, SplitKSchedule schedule) {
  split_k_work_on_share<kVectors>(c, workspace, flags, in, schedule);
  for (int64_t tile = schedule.shared_tiles + blockIdx.x; tile < schedule.tiles; tile += schedule.blocks) {
    SplitKSums sum;
    split_k_multiply<kVectors>(sum, in, {tile, 0, static_cast<int>(schedule.depth)});
    split_k_store<kVectors>(c, in, tile, sum);
    __syncthreads();
  }
}

}  // namespace tenfold::kernels
