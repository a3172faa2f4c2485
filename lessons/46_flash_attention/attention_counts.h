#pragma once
// Case "counted" of lesson 46: bytes for each pair of a query and a key, counted on any machine for one head of some lengths.

#include <tenfold/gpt_attention.h>
#include <tenfold/lesson.h>

namespace tenfold {

/// Notes for each length what the operators behind a function of LibTorch move in a forward pass: their inputs and outputs. Returns
/// the empty step.
Step note_attention_operators(const Trial& trial, Attention attention);

/// Notes for each length and rung of kernels/flash_attention, under the microscope, what its requests move, and what of it DRAM must
/// move, where each sector counts once. Returns the empty step. Throws std::runtime_error when a rung is wrong.
Step note_attention_kernels(const Trial& trial);

}  // namespace tenfold
