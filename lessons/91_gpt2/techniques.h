#pragma once
// Which techniques a step of lesson 91 uses, and the order in which they are switched on. Each has a lesson of its own.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tenfold::inline lesson_91 {

/// All off: 32 bits, operator by operator, the whole batch at once.
struct Techniques {
  bool fused_attention = false;    ///< lesson 46: no scores in memory
  bool padded_vocabulary = false;  ///< lesson 16's sizes: 50304 columns of the head
  bool fused_adamw = false;        ///< lesson 45: one operator for the update of all tensors
  bool tf32 = false;               ///< lesson 21: matmuls on tensor cores, 32-bit numbers in memory
  bool bf16 = false;               ///< lesson 21: activations and matmuls in 16 bits
  bool accumulation = false;       ///< lesson 30: the batch in micro-batches, one update
  bool checkpointing = false;      ///< lesson 31: backward() computes each block again
};

struct Technique {
  std::string_view name;
  bool Techniques::* on;
  bool cuda_only;
};
inline constexpr std::array<Technique, 5> kTechniques = {{{"fused attention", &Techniques::fused_attention, false},
                                                          {"padded vocabulary", &Techniques::padded_vocabulary, false},
                                                          {"fused AdamW", &Techniques::fused_adamw, false},
                                                          {"TF32", &Techniques::tf32, true},
                                                          {"bf16 autocast", &Techniques::bf16, false}}};

/// The first `count` of them: what makes a step faster. The other two make room.
inline Techniques stack_of(size_t count) {
  Techniques techniques;
  for (size_t i = 0; i < count; ++i) techniques.*kTechniques.at(i).on = true;
  return techniques;
}

/// All that changes no result but for rounding.
inline Techniques all_in_32_bits() {
  Techniques techniques = stack_of(3);
  techniques.accumulation = techniques.checkpointing = true;
  return techniques;
}

inline std::string stack_name(size_t count) { return "+ " + std::string(kTechniques.at(count - 1).name); }

}  // namespace tenfold::inline lesson_91
