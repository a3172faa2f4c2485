#pragma once
// The levers that make a training step smaller, in the order in which they are tried: the cheapest first, as in lesson
// 92. Each is a lesson's technique.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tenfold::fit {

enum class Lever {
  autocast,            ///< matmuls and activations in 16 bits, lesson 21
  chunked_loss,        ///< logits chunk by chunk, lesson 44
  micro_batches,       ///< one sequence at a time, gradients are added: lesson 30
  checkpointing,       ///< of each block only the input is kept, lesson 31
  eight_bit_adamw,     ///< two bytes of optimizer state a parameter, lesson 33
  sixteen_bit_weights  ///< weights and gradients in bfloat16, without a copy in 32 bits
  // Offloading, lesson 34, comes here.
};

struct LeverText {
  Lever lever;
  const char* key;   ///< as --with names it
  const char* name;  ///< in tables
};

using Levers = std::set<Lever>;

/// All of them, in order.
const std::vector<LeverText>& lever_texts();

/// Those that a card of this compute capability, 8 of 8.9, can use, in order. Below 8.0 there is no bfloat16, and
/// weights in fp16 alone do not train.
std::vector<Lever> levers_of(int capability);

/// "autocast,checkpointing", or "none". Throws UsageError, one line, on a name that is none.
Levers levers_named(const std::string& list);

/// Their keys, in order.
std::vector<std::string> keys_of(const Levers& levers);

}  // namespace tenfold::fit
