#pragma once
// Five ways to the cross-entropy of a row and its gradient. Row-major (rows, classes); see cross_entropy.h.

#include "kernels/online_softmax.cuh"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// What every rung must know of a row before it touches a logit.
struct RowTarget {
  int64_t target;
  float scale;  ///< gradient_scale / counted rows; 0 for a row that does not count; NaN for a target that is no class
  bool counts;  ///< false: loss and gradient are 0, whatever the logits are
  bool valid;   ///< the target is a class
};
__device__ inline RowTarget row_target(const int64_t* targets, const int64_t* counted, int64_t row, int64_t classes,
                                       int64_t ignore_index, float gradient_scale) {
  const int64_t target = targets[row];
  const bool counts = target != ignore_index, valid = target >= 0 && target < classes;
  const float scale = !counts ? 0.0F : valid ? gradient_scale / static_cast<float>(*counted) : NAN;
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
                                             int64_t rows, int64_t classes, int64_t ignore_index,
                                             float gradient_scale) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index, gradient_scale);
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
                                              int64_t ignore_index, float gradient_scale) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index, gradient_scale);
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

/// A row of any length and beginning as whole packets between two edges: the values before the first address that is a
/// multiple of 16, and those behind the last packet. They are fewer than 2 N, one for each of as many threads.
template <class T, int N>
struct PacketsOfRow {
  int64_t head;   ///< values before the first packet
  int64_t count;  ///< packets
  Packet<T, N>* packets;
  int64_t edge;  ///< which of the row's values, of the two edges, is this thread's; -1: none

  __device__ PacketsOfRow(T* row, int64_t columns) {
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % N);  // since a packet began
    head = past == 0 ? 0 : N - past;
    if (head > columns) head = columns;
    count = (columns - head) / N;
    packets = packets_of<N>(row + head);
    edge = threadIdx.x < head ? threadIdx.x : threadIdx.x + count * N;
    if (edge >= columns) edge = -1;
  }
};

/// A block's row that has nothing to compute: its loss and gradient are 0, or NaN. Says whether it was one.
template <class T>
__device__ inline bool is_left_out(const RowTarget& of_row, T* logits, float* loss, int64_t classes) {
  if (of_row.valid) return false;
  if (threadIdx.x == 0) *loss = of_row.scale;
  const T value = from_float<T>(of_row.scale);
  Packet<T, kPacket<T>> same;
#pragma unroll
  for (T& one : same.values) one = value;
  const PacketsOfRow<T, kPacket<T>> row(logits, classes);
  if (row.edge >= 0) logits[row.edge] = value;
  for (int64_t p = threadIdx.x; p < row.count; p += blockDim.x) row.packets[p] = same;
  return true;
}

/// Rung 1: loss and gradient in one kernel, a block per row. What forward has found is still there when the gradient
/// needs it, and lanes read neighbours. The logits are read three times, mostly from a cache, and written once.
template <class T>
static __global__ void cross_entropy_one_kernel(T* __restrict__ logits, float* __restrict__ losses,
                                                const int64_t* __restrict__ targets,
                                                const int64_t* __restrict__ counted, int64_t classes,
                                                int64_t ignore_index, float gradient_scale) {
  const int64_t row = blockIdx.x;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index, gradient_scale);
  logits += row * classes;
  if (is_left_out(of_row, logits, losses + row, classes)) return;  // the whole block
  // Before the barriers below, because after them another thread overwrites it.
  const float target_logit = threadIdx.x == 0 ? to_float(logits[of_row.target]) : 0.0F;
  float largest = -INFINITY, sum = 0;
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) largest = fmaxf(largest, to_float(logits[c]));
  largest = combine_block(largest, Larger());
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) sum += expf(to_float(logits[c]) - largest);
  sum = combine_block(sum, Add());
  if (threadIdx.x == 0) losses[row] = loss_of(target_logit, largest, sum);
  const float inverse = 1 / sum;
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
    const float probability = expf(to_float(logits[c]) - largest) * inverse;
    logits[c] = from_float<T>((probability - (c == of_row.target ? 1.0F : 0.0F)) * of_row.scale);
  }
}

/// Rung 2: online. One pass finds the largest value and the sum together: two reads instead of three.
template <class T>
static __global__ void cross_entropy_online(T* __restrict__ logits, float* __restrict__ losses,
                                            const int64_t* __restrict__ targets, const int64_t* __restrict__ counted,
                                            int64_t classes, int64_t ignore_index, float gradient_scale) {
  const int64_t row = blockIdx.x;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index, gradient_scale);
  logits += row * classes;
  if (is_left_out(of_row, logits, losses + row, classes)) return;  // the whole block
  // Before the barriers below, because after them another thread overwrites it.
  const float target_logit = threadIdx.x == 0 ? to_float(logits[of_row.target]) : 0.0F;
  LargestAndSum found{-INFINITY, 0};
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x)
    found = JoinLargestAndSum()(found, {to_float(logits[c]), 1.0F});
  found = join_block(found, JoinLargestAndSum());
  if (threadIdx.x == 0) losses[row] = loss_of(target_logit, found.largest, found.sum);
  const float inverse = 1 / found.sum;
  for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
    const float probability = expf(to_float(logits[c]) - found.largest) * inverse;
    logits[c] = from_float<T>((probability - (c == of_row.target ? 1.0F : 0.0F)) * of_row.scale);
  }
}

/// A packet of logits becomes the gradient: exp(logit - largest) / sum * scale, and less `scale` at the target, if it
/// is the packet's element `at`.
template <class T, int N>
__device__ inline Packet<T, N> gradient_of(const Packet<T, N>& packet, LargestAndSum found, float scale, int64_t at) {
  const float factor = scale / found.sum;
  float gradients[N];
#pragma unroll
  for (int i = 0; i < N; ++i) gradients[i] = exp_below(to_float(packet.values[i]), found.largest) * factor;
  if (at >= 0 && at < N) {  // one packet of the row
#pragma unroll
    for (int i = 0; i < N; ++i) gradients[i] -= i == at ? scale : 0.0F;
  }
  Packet<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result.values[i] = from_float<T>(gradients[i]);
  return result;
}

inline constexpr int kLoadsInFlight = 4;  // of a thread, where a loop would wait for each

/// This thread's packets from `p` on become gradients, some of them in flight at a time.
template <class T, int N>
__device__ inline void gradients_in_place(Packet<T, N>* packets, int64_t p, int64_t count, LargestAndSum found,
                                          float scale, int64_t target) {
  for (; p + (kLoadsInFlight - 1) * int64_t{blockDim.x} < count; p += kLoadsInFlight * int64_t{blockDim.x}) {
    Packet<T, N> some[kLoadsInFlight];  // a store may not be moved before a load of what might be the same place
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) some[i] = packets[p + i * int64_t{blockDim.x}];
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      const int64_t place = p + i * int64_t{blockDim.x};
      packets[place] = gradient_of(some[i], found, scale, target - place * N);
    }
  }
  for (; p < count; p += blockDim.x) {
    const Packet<T, N> packet = packets[p];
    packets[p] = gradient_of(packet, found, scale, target - p * N);
  }
}

/// Rung 3: the same with N values per access, 16 bytes: a quarter of the requests for floats, an eighth for halves, and
/// four of them in flight. The sum is rescaled once per packet instead of once per value. A row may begin between
/// packets, as seven of eight rows of GPT-2's 50,257 classes do in 16 bits: the values before its first packet and
/// behind its last are taken one by one, all at once.
template <class T, int N>
static __global__ void cross_entropy_vectorised(T* __restrict__ logits, float* __restrict__ losses,
                                                const int64_t* __restrict__ targets,
                                                const int64_t* __restrict__ counted, int64_t classes,
                                                int64_t ignore_index, float gradient_scale) {
  const int64_t row = blockIdx.x;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index, gradient_scale);
  logits += row * classes;
  if (is_left_out(of_row, logits, losses + row, classes)) return;
  const PacketsOfRow<T, N> parts(logits, classes);
  auto* packets = parts.packets;
  const int64_t count = parts.count, target = of_row.target - parts.head;
  const float target_logit = threadIdx.x == 0 ? to_float(logits[of_row.target]) : 0.0F;
  LargestAndSum found{-INFINITY, 0};
  const Packet<T, 1> of_edge{parts.edge < 0 ? from_float<T>(-INFINITY) : logits[parts.edge]};
  if (parts.edge >= 0) found = join_packet(found, of_edge);
#pragma unroll kLoadsInFlight
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> packet = packets[p];
    found = join_packet(found, packet);
  }
  found = join_block(found, JoinLargestAndSum());
  if (threadIdx.x == 0) losses[row] = loss_of(target_logit, found.largest, found.sum);
  if (parts.edge >= 0)
    logits[parts.edge] = gradient_of(of_edge, found, of_row.scale, of_row.target - parts.edge).values[0];
  gradients_in_place(packets, threadIdx.x, count, found, of_row.scale, target);
}

/// Rung 4: the row stays in shared memory between the passes, so that DRAM is asked for it once on every GPU. Rung 3
/// has two rows of 50,304 bfloat16 under way on each SM, 27 MB on an H100: its two halves of L2, 50 MB in all, may hold
/// them; an A6000's 6 MB do not, and rows are read twice there. Of a row that is too long the first `kept` packets
/// stay. The rest is read last in the first pass and first in the second, while L2 may still have it. kWhole: nothing
/// is left, which saves registers.
template <class T, int N, bool kWhole>
static __global__ void __launch_bounds__(1024)
    cross_entropy_held(T* __restrict__ logits, float* __restrict__ losses, const int64_t* __restrict__ targets,
                       const int64_t* __restrict__ counted, int64_t classes, int64_t ignore_index, float gradient_scale,
                       int64_t kept) {
  const int64_t row = blockIdx.x;
  const RowTarget of_row = row_target(targets, counted, row, classes, ignore_index, gradient_scale);
  logits += row * classes;
  if (is_left_out(of_row, logits, losses + row, classes)) return;
  const PacketsOfRow<T, N> parts(logits, classes);
  auto* packets = parts.packets;
  const int64_t count = parts.count, target = of_row.target - parts.head;
  const float target_logit = threadIdx.x == 0 ? to_float(logits[of_row.target]) : 0.0F;
  auto* held = dynamic_shared<Packet<T, N>>();  // each thread reads what it wrote itself
  LargestAndSum found{-INFINITY, 0};
  const Packet<T, 1> of_edge{parts.edge < 0 ? from_float<T>(-INFINITY) : logits[parts.edge]};
  if (parts.edge >= 0) found = join_packet(found, of_edge);
  const int64_t in_shared = kWhole || count < kept ? count : kept;
  int64_t p = threadIdx.x;
#pragma unroll kLoadsInFlight
  for (; p < in_shared; p += blockDim.x) {
    const Packet<T, N> packet = packets[p];
    held[p] = packet;
    found = join_packet(found, packet);
  }
  const int64_t rest = p;
  if constexpr (!kWhole) {
#pragma unroll kLoadsInFlight
    for (; p < count; p += blockDim.x) {
      const Packet<T, N> packet = packets[p];
      found = join_packet(found, packet);
    }
  }
  found = join_block(found, JoinLargestAndSum());
  if (threadIdx.x == 0) losses[row] = loss_of(target_logit, found.largest, found.sum);
  if (parts.edge >= 0)
    logits[parts.edge] = gradient_of(of_edge, found, of_row.scale, of_row.target - parts.edge).values[0];
  if constexpr (!kWhole) gradients_in_place(packets, rest, count, found, of_row.scale, target);
#pragma unroll kLoadsInFlight
  for (p = threadIdx.x; p < in_shared; p += blockDim.x) {
    const Packet<T, N> packet = held[p];
    packets[p] = gradient_of(packet, found, of_row.scale, target - p * N);
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
