#pragma once
// Three ways to update many tensors; see adamw.h.

#include "adamw.h"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

inline constexpr unsigned kAdamWThreads = 512;

/// What the update of a value needs of the settings and the step, computed on the host in double.
struct AdamWFactors {
  float beta1, rest1;  // rest = 1 - beta
  float beta2, rest2;
  float step_size;   // learning_rate / (1 - beta1^step)
  float root_scale;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float decay;  // learning_rate * weight_decay
};

/// One value. What is subtracted is summed first: a parameter times 1 - 1e-6, rounded to float, would lose the decay's
/// digits.
__device__ inline void adamw_update(float& parameter, float& average, float& square_average, float gradient,
                                    const AdamWFactors& f) {
  average = f.beta1 * average + f.rest1 * gradient;
  square_average = f.beta2 * square_average + f.rest2 * gradient * gradient;
  parameter -= f.step_size * average / (sqrtf(square_average) * f.root_scale + f.epsilon) + f.decay * parameter;
}

/// Rung 0: one tensor, a thread per value. Loads and stores are as good as can be, but a model has hundreds of tensors,
/// many of them with a few hundred values: each costs a launch, of some microseconds, and leaves most of the GPU
/// without work.
static __global__ void adamw_tensor(AdamWTensor tensor, AdamWFactors factors) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= tensor.count) return;
  float parameter = tensor.parameter[i], average = tensor.average[i], square_average = tensor.square_average[i];
  adamw_update(parameter, average, square_average, tensor.gradient[i], factors);
  tensor.parameter[i] = parameter;
  tensor.average[i] = average;
  tensor.square_average[i] = square_average;
}

/// The tensors of one launch. They are parameters of the kernel, so they lie in constant memory: nothing is allocated
/// or copied beforehand, and a whole warp reads an entry at once.
struct AdamWList {
  AdamWTensor tensors[kAdamWTensors];
  int first_block[kAdamWTensors];  // of each tensor's chunks, ascending
  int count;
};
static_assert(sizeof(AdamWList) + sizeof(AdamWFactors) <= 4096, "a kernel's parameters may have 4 KiB on every GPU");

/// The tensor that this block's chunk is of: the last one whose first block is not behind this one.
__device__ inline int tensor_of_block(const AdamWList& list) {
  int low = 0, high = list.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (list.first_block[middle] <= static_cast<int>(blockIdx.x)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Rung 1: a block per chunk of 64 Ki values of any tensor, so that one launch does them all and small tensors run
/// beside large ones. Finding the tensor takes seven steps at most, once per block.
static __global__ void adamw_list(const __grid_constant__ AdamWList list, AdamWFactors factors) {
  const int which = tensor_of_block(list);
  const AdamWTensor tensor = list.tensors[which];
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - list.first_block[which]) * kAdamWChunk;
  const int64_t end = min(begin + kAdamWChunk, tensor.count);
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    float parameter = tensor.parameter[i], average = tensor.average[i], square_average = tensor.square_average[i];
    adamw_update(parameter, average, square_average, tensor.gradient[i], factors);
    tensor.parameter[i] = parameter;
    tensor.average[i] = average;
    tensor.square_average[i] = square_average;
  }
}

/// Values begin to `end` of a tensor, N at a time; `begin` and `end` are multiples of N.
template <int N>
__device__ inline void adamw_range(const AdamWTensor& tensor, int64_t begin, int64_t end, const AdamWFactors& factors) {
  for (int64_t i = begin / N + threadIdx.x; i < end / N; i += blockDim.x) {
    Packet<float, N> parameter = packets_of<N>(tensor.parameter)[i];
    Packet<float, N> average = packets_of<N>(tensor.average)[i];
    Packet<float, N> square_average = packets_of<N>(tensor.square_average)[i];
    const Packet<float, N> gradient = packets_of<N>(tensor.gradient)[i];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      adamw_update(parameter.values[k], average.values[k], square_average.values[k], gradient.values[k], factors);
    }
    packets_of<N>(tensor.parameter)[i] = parameter;
    packets_of<N>(tensor.average)[i] = average;
    packets_of<N>(tensor.square_average)[i] = square_average;
  }
}

/// Rung 2: 16 bytes per access: a quarter of the requests, and four times the bytes in flight. A tensor that begins
/// between packets, a view of something larger, goes value by value, and so do the last one to three values of any
/// other.
static __global__ void adamw_packets(const __grid_constant__ AdamWList list, AdamWFactors factors) {
  const int which = tensor_of_block(list);
  const AdamWTensor tensor = list.tensors[which];
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - list.first_block[which]) * kAdamWChunk;
  const int64_t end = min(begin + kAdamWChunk, tensor.count);
  const auto addresses = reinterpret_cast<uintptr_t>(tensor.parameter) | reinterpret_cast<uintptr_t>(tensor.average) |
                         reinterpret_cast<uintptr_t>(tensor.square_average) |
                         reinterpret_cast<uintptr_t>(tensor.gradient);
  const int64_t packets_end = addresses % 16 == 0 ? end - end % 4 : begin;
  adamw_range<4>(tensor, begin, packets_end, factors);
  adamw_range<1>(tensor, packets_end, end, factors);
}

}  // namespace tenfold::kernels
