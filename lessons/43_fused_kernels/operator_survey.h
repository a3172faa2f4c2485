#pragma once
// Survey "counted" of lesson 43: bytes that LayerNorm, bias + GELU and softmax move for each value of a matrix in a
// forward pass, counted on any machine.

#include "common/harness/lesson.h"
#include "gpt_operators.h"

namespace tenfold::inline lesson_43 {

inline constexpr Setting<int64_t> kRows{"rows", 64, "rows of the matrix that is counted"};
inline constexpr Setting<int64_t> kColumns{"columns", 512, "columns of the matrix that is counted"};

torch::Tensor eager_softmax(const torch::Tensor& x);

/// Notes what the operators behind these functions of LibTorch move: the bytes of their inputs and outputs.
void note_operators(const Trial& trial, const GptOperators& operators, torch::Tensor (*softmax)(const torch::Tensor&));

/// The same for ATen's own operators: one for each, and the bias.
void note_aten_operators(const Trial& trial);

/// Notes what our kernels move, rung by rung: the sectors that their requests ask for, counted under the microscope.
/// Throws std::runtime_error when a rung is wrong.
void note_kernels(const Trial& trial);

}  // namespace tenfold::inline lesson_43
