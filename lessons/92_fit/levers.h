#pragma once
// What makes a training step smaller, one lever on top of the other.

#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace tenfold::inline lesson_92 {

/// Which levers are pulled. None: everything in 32 bits, the whole batch at once, AdamW.
struct Levers {
  bool micro_batches = false;     ///< the batch in micro-batches, gradients are added: lesson 30
  bool checkpointing = false;     ///< of each block only the input is kept: lesson 31
  bool chunked_loss = false;      ///< logits chunk by chunk: lesson 44
  bool eight_bit_adamw = false;   ///< averages in 8 bits: lesson 33
  bool sixteen_bits = false;      ///< matmuls and what they keep in bf16: lesson 21
  bool averages_on_host = false;  ///< AdamW works on the host, with averages of 32 bits there: lesson 34
};

struct Lever {
  const char* name;
  bool Levers::* pulled;
};

inline constexpr std::array<Lever, 6> kLevers = {{{"accumulation", &Levers::micro_batches},
                                                  {"checkpointing", &Levers::checkpointing},
                                                  {"loss in chunks", &Levers::chunked_loss},
                                                  {"8-bit AdamW", &Levers::eight_bit_adamw},
                                                  {"bf16 autocast", &Levers::sixteen_bits},
                                                  {"offload", &Levers::averages_on_host}}};

/// The first `count` levers.
constexpr Levers stack_of(size_t count) {
  Levers levers;
  for (size_t i = 0; i < count; ++i) levers.*kLevers[i].pulled = true;
  return levers;
}

/// On a GPU attention in one kernel takes bfloat16 from compute capability 8.0 on; without it a T4 would need more
/// memory in 16 bits than in 32. A CPU without instructions for it emulates it, ten times as slowly.
inline bool has_bfloat16(torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) return at::cuda::getDeviceProperties(device.index())->major >= 8;
#endif
#ifdef __x86_64__
  return !device.is_cpu() || __builtin_cpu_supports("avx512bf16") != 0;
#else
  return !device.is_cpu();
#endif
}

/// The levers that this device can pull.
inline Levers possible_on(torch::Device device, Levers levers) {
  levers.sixteen_bits = levers.sixteen_bits && has_bfloat16(device);
  return levers;
}

}  // namespace tenfold::inline lesson_92
