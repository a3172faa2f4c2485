#pragma once
// Three ways to the cross-entropy of a row and its gradient. Row-major (rows, classes); see cross_entropy.h.

#include "kernels/online_softmax.cuh"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// What every rung must know of a row before it touches a logit.
struct RowTarget {
  int64_t target;
  float scale;  ///< 1 / counted rows; 0 for a row that does not count; NaN for a target that is no class
  bool counts;  ///< false: loss and gradient are 0, whatever the logits are
  bool valid;   ///< the target is a class
};
__device__ inline RowTarget row_target(const int64_t* targets, const int64_t* counted, int64_t row, int64_t classes,
                                       int64_t ignore_index) {
  const int64_t target = targets[row];
  const bool counts = target != ignore_index, valid = target >= 0 && target < classes;
  const float scale = !counts ? 0.0F : valid ? 1 / static_cast<float>(*counted) : NAN;
  return {target, scale, counts, counts && valid};
}

/// log(sum) - (logit - largest): never a large number minus a large number.
__device__ inline float loss_of(float target_logit, float largest, float sum) {
  return logf(sum) - (target_logit - largest);
}

/// Rung 0, forward: a thread per row, in two passes. In each load the 32 lanes of a warp read 32 rows, so each lane's
/// bytes cost a sector of 32 bytes, and only as many threads as rows hide the latency.
template <class T>
static __global__ void cross_entropy_forward(float* __restrict__ losses, const T* __restrict__ logits,
                                             const int64_t* __restrict__ targets, const int64_t* __restrict__ counted,
                                             int64_t rows, int64_t classes, int64_t ignore_index) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index);
  if (!of_row.valid) {
    losses[row] = of_row.scale;  // 0 or NaN
    return;
  }
  logits += row * classes;
  float largest = -INFINITY;
  for (int64_t c = 0; c < classes; ++c) largest = fmaxf(largest, to_float(logits[c]));
  float sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += expf(to_float(logits[c]) - largest);
  losses[row] = loss_of(to_float(logits[of_row.target]), largest, sum);
}

/// Rung 0, backward: knows nothing of forward, so it finds the largest value and the sum once more before it writes.
/// Together the two kernels read the logits five times.
template <class T>
static __global__ void cross_entropy_backward(T* __restrict__ logits, const int64_t* __restrict__ targets,
                                              const int64_t* __restrict__ counted, int64_t rows, int64_t classes,
                                              int64_t ignore_index) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index);
  logits += row * classes;
  if (!of_row.valid) {
    for (int64_t c = 0; c < classes; ++c) logits[c] = from_float<T>(of_row.scale);
    return;
  }
  float largest = -INFINITY;
  for (int64_t c = 0; c < classes; ++c) largest = fmaxf(largest, to_float(logits[c]));
  float sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += expf(to_float(logits[c]) - largest);
  for (int64_t c = 0; c < classes; ++c) {
    const float probability = expf(to_float(logits[c]) - largest) / sum;
    logits[c] = from_float<T>((probability - (c == of_row.target ? 1.0F : 0.0F)) * of_row.scale);
  }
}

/// Rung 1: loss and gradient in one kernel, a block per row. What forward has found is still there when the gradient
/// needs it; lanes read neighbours; and online, one pass finds the largest value and the sum together. The logits are
/// read twice, the second time mostly from a cache, and written once.
template <class T>
static __global__ void cross_entropy_online(T* __restrict__ logits, float* __restrict__ losses,
                                            const int64_t* __restrict__ targets, const int64_t* __restrict__ counted,
                                            int64_t classes, int64_t ignore_index) {
  const int64_t row = blockIdx.x;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index);
  logits += row * classes;
  if (!of_row.valid) {  // the whole block
    if (threadIdx.x == 0) losses[row] = of_row.scale;
    for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) logits[c] = from_float<T>(of_row.scale);
    return;
  }
  // Before the barriers below, because after them another thread overwrites it.
  const float target_logit = threadIdx.x == 0 ? to_float(logits[of_row.target]) : 0.0F;
  LargestAndSum found{-INFINITY, 0};
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x)
    found = JoinLargestAndSum()(found, {to_float(logits[c]), 1.0F});
  found = combine_block(found, JoinLargestAndSum());
  if (threadIdx.x == 0) losses[row] = loss_of(target_logit, found.largest, found.sum);
  const float inverse = 1 / found.sum;
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
    const float probability = expf(to_float(logits[c]) - found.largest) * inverse;
    logits[c] = from_float<T>((probability - (c == of_row.target ? 1.0F : 0.0F)) * of_row.scale);
  }
}

/// Rung 2: the same with N values per access, 16 bytes: a quarter of the requests for floats, an eighth for halves, and
/// more bytes in flight. The sum is rescaled once per packet instead of once per value.
template <class T, int N>
static __global__ void cross_entropy_vectorised(T* __restrict__ logits, float* __restrict__ losses,
                                                const int64_t* __restrict__ targets,
                                                const int64_t* __restrict__ counted, int64_t classes,
                                                int64_t ignore_index) {
  const int64_t row = blockIdx.x, count = classes / N;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index);
  logits += row * classes;
  auto* packets = packets_of<N>(logits);
  if (!of_row.valid) {
    if (threadIdx.x == 0) losses[row] = of_row.scale;
    Packet<T, N> same;
#pragma unroll
    for (int i = 0; i < N; ++i) same.values[i] = from_float<T>(of_row.scale);
    for (int64_t p = threadIdx.x; p < count; p += blockDim.x) packets[p] = same;
    return;
  }
  const float target_logit = threadIdx.x == 0 ? to_float(logits[of_row.target]) : 0.0F;
  LargestAndSum found{-INFINITY, 0};
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> packet = packets[p];
    found = join_packet(found, packet);
  }
  found = combine_block(found, JoinLargestAndSum());
  if (threadIdx.x == 0) losses[row] = loss_of(target_logit, found.largest, found.sum);
  const float inverse = 1 / found.sum;
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    Packet<T, N> packet = packets[p];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float probability = expf(to_float(packet.values[i]) - found.largest) * inverse;
      packet.values[i] = from_float<T>((probability - (p * N + i == of_row.target ? 1.0F : 0.0F)) * of_row.scale);
    }
    packets[p] = packet;
  }
}

/// Before all rungs, one block: the number of rows that count. On the device, because a host that asked would have to
/// wait.
static __global__ void count_targets(int64_t* __restrict__ counted, const int64_t* __restrict__ targets, int64_t rows,
                                     int64_t ignore_index) {
  int count = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) count += targets[row] != ignore_index ? 1 : 0;
  count = combine_block(count, Add());
  if (threadIdx.x == 0) *counted = count;
}

/// After all rungs, one block: the mean loss. 0 / 0, NaN, when nothing counts.
static __global__ void mean_loss(float* __restrict__ mean, const float* __restrict__ losses,
                                 const int64_t* __restrict__ counted, int64_t rows) {
  float sum = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) sum += losses[row];
  sum = combine_block(sum, Add());
  if (threadIdx.x == 0) *mean = sum / static_cast<float>(*counted);
}

}  // namespace tenfold::kernels
