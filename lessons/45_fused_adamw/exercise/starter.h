#pragma once
// Your answer to exercise 45. Build and check it with: ./tenfold exercise 45
#include "kernels/launch.cuh"

#include <span>

/// A parameter with its momentum, which are changed, and its gradient; `count` values each.
struct MomentumTensor {
  float *parameter, *momentum;
  const float* gradient;
  int count;
};

constexpr int kMostTensors = 64;
constexpr int kThreads = 256;

static __global__ void add_gradient(MomentumTensor tensor, float beta) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < tensor.count) tensor.momentum[i] = beta * tensor.momentum[i] + tensor.gradient[i];
}

static __global__ void move_parameter(MomentumTensor tensor, float learning_rate) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < tensor.count) tensor.parameter[i] -= learning_rate * tensor.momentum[i];
}

/// momentum = beta momentum + gradient and then parameter -= learning_rate momentum, for each of at most kMostTensors
/// tensors.
inline void momentum_step(tenfold::kernels::Stream stream, std::span<const MomentumTensor> tensors, float learning_rate,
                          float beta) {
  // Hint: a kernel's parameters are copied with its launch, and they may be a struct with an array in it. What must a
  // block know besides the tensors to find the one that it works on?
  for (const MomentumTensor& tensor : tensors) {
    const dim3 blocks(static_cast<unsigned>((tensor.count + kThreads - 1) / kThreads));
    if (tensor.count == 0) continue;
    tenfold::kernels::launch(stream, blocks, dim3(kThreads), 0, add_gradient, tensor, beta);
    tenfold::kernels::launch(stream, blocks, dim3(kThreads), 0, move_parameter, tensor, learning_rate);
  }
}
