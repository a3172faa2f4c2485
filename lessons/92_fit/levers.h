#pragma once
// What makes a training step smaller, one lever on top of the other.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "common/measure/device.h"
#include "common/measure/setting.h"

namespace tenfold::inline lesson_92 {

inline constexpr Setting<bool> kAutocast{"autocast", true, "false leaves the first lever out of all stacks"};

/// Which levers are pulled. None: everything in 32 bits, the whole batch at once, AdamW.
struct Levers {
  bool sixteen_bits = false;      ///< matmuls and what they keep in bf16: lesson 21
  bool chunked_loss = false;      ///< logits chunk by chunk: lesson 44
  bool micro_batches = false;     ///< the batch in micro-batches, gradients are added: lesson 30
  bool checkpointing = false;     ///< of each block only the input is kept: lesson 31
  bool eight_bit_adamw = false;   ///< averages in 8 bits: lesson 33
  bool averages_on_host = false;  ///< AdamW works on the host, with averages of 32 bits there: lesson 34
};

struct Lever {
  const char* name;
  bool Levers::* pulled;
};

/// The cheapest first: autocast makes a step faster on tensor cores, chunks of the loss and micro-batches cost
/// launches, checkpointing a second forward pass, 8-bit AdamW rounding and part of the update, offload the host's time.
inline constexpr std::array<Lever, 6> kLevers = {{{"bf16 autocast", &Levers::sixteen_bits},
                                                  {"loss in chunks", &Levers::chunked_loss},
                                                  {"accumulation", &Levers::micro_batches},
                                                  {"checkpointing", &Levers::checkpointing},
                                                  {"8-bit AdamW", &Levers::eight_bit_adamw},
                                                  {"offload", &Levers::averages_on_host}}};

/// The first `count` levers.
constexpr Levers stack_of(size_t count) {
  Levers levers;
  for (size_t i = 0; i < count; ++i) levers.*kLevers[i].pulled = true;
  return levers;
}

/// The first `count` without autocast: up to checkpointing they change nothing but the order of sums.
constexpr Levers in_32_bits(size_t count) {
  Levers levers = stack_of(count);
  levers.sixteen_bits = false;
  return levers;
}

/// Those that can be pulled here. On a GPU attention in one kernel takes bfloat16 from compute capability 8.0 on;
/// without it a T4 would need more memory in 16 bits than in 32. From a Trial or a Counted.
template <class Source>
Levers possible_in(const Source& source, Levers levers) {
  levers.sixteen_bits = source.get(kAutocast) && levers.sixteen_bits && multiplies_bfloat16(source.device);
  return levers;
}

}  // namespace tenfold::inline lesson_92
