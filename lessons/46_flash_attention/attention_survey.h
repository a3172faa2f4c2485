#pragma once
// Survey "counted" of lesson 46: bytes for each pair of a query and a key, counted on any machine for one head of some
// lengths.

#include "common/harness/lesson.h"
#include "gpt_attention.h"

namespace tenfold::inline lesson_46 {

inline constexpr Setting<int64_t> kLongest{"longest", 256, "tokens of the longest sequence that is counted"};

/// Notes what the operators behind a function of LibTorch move in a forward pass, for each length: their inputs and
/// outputs.
void note_attention_operators(const Trial& trial, Attention attention);

/// Notes for each length and rung of kernels/flash_attention, under the microscope, what its requests move, and what of
/// it DRAM must move, where each sector counts once. Throws std::runtime_error when a rung is wrong.
void note_attention_kernels(const Trial& trial);

}  // namespace tenfold::inline lesson_46
