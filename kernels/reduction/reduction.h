#pragma once
// The reduction ladder: the sum of many floats, six times, to see how a block and then a grid of threads agree on one
// number.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kReductionRungs = 6;
inline constexpr int kReductionThreads = 256;  ///< per block
inline constexpr int kReductionMaxBlocks =
    1024;  ///< of rungs 3 to 5: enough for every multiprocessor, few enough to add up

/// What the blocks of rung 5 leave for the last one, in memory of the device. `blocks_done` must be 0 before the first
/// use; each call leaves it 0 again, so one workspace serves any number of calls, one after the other. What is in
/// `partial` does not matter.
struct ReductionWorkspace {
  float partial[kReductionMaxBlocks];
  uint32_t blocks_done;
};

/// out (1) = the sum of in (n). Rungs: 0 one atomicAdd per thread; 1 a tree in shared memory, interleaved addressing; 2
/// sequential addressing; 3 several elements per thread, added as they are loaded; 4 warp shuffles; 5 16-byte loads,
/// and the last block to end adds up the others' sums. Rungs 0 to 4 add blocks in any order, so that the last bits may
/// differ from run to run; rung 5 is one launch and gives the same bits each time on every GPU (for the same n and the
/// same alignment of `in` to 16 bytes). `workspace` is for rung 5 only and may be null for the others. Throws
/// std::invalid_argument for n below 1 or more than a grid covers, a missing workspace, or an unknown rung. After
/// Harris, "Optimizing Parallel Reduction in CUDA", 2007; Luitjens, "Faster Parallel Reductions on Kepler", 2014; and
/// the memory fence example of the CUDA C++ Programming Guide.
template <class Stream>
void reduce_sum(Stream stream, float* out, const float* in, int64_t n, ReductionWorkspace* workspace,
                int rung = kReductionRungs - 1);

/// The blocks that a rung starts for n elements. They depend on n alone, not on the GPU, and so do the bits of rung 5.
constexpr int64_t reduction_blocks(int64_t n, int rung) {
  if (rung < 3) return (n + kReductionThreads - 1) / kReductionThreads;
  const int64_t per_block = kReductionThreads * (rung < 5 ? 8 : 16);
  return std::min<int64_t>((n + per_block - 1) / per_block, kReductionMaxBlocks);
}

/// The most additions in a row that an element of a sum of n goes through.
constexpr int64_t reduction_depth(int64_t n, int rung) {
  if (rung == 0) return n;
  constexpr int64_t kTree = 8;  // log2(kReductionThreads)
  const int64_t blocks = reduction_blocks(n, rung), threads = blocks * kReductionThreads;
  if (rung < 5) return (n + threads - 1) / threads + kTree + blocks;
  return (n / 4 + threads - 1) / threads + 4 + kTree + (blocks + kReductionThreads - 1) / kReductionThreads + kTree;
}

/// The standard deviation, at most, of the rounding error of a sum of n standard normal values. An addition errs by at
/// most 2^-24 of its result, whose variance is the number of elements in it; each element is in at most `depth`
/// results.
inline double reduction_error(int64_t n, int rung) {
  return 0x1p-24 * std::sqrt(static_cast<double>(n) * static_cast<double>(reduction_depth(n, rung)));
}

}  // namespace tenfold::kernels
