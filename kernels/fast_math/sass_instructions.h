#pragma once
// Machine instructions for an element in kernels/fast_math. Written by common/tools/sass_instructions.py, which says
// what is counted; changes here are lost. Compiled with nvcc 13.0.88.

#include "fast_math.h"

namespace tenfold {

struct SassInstructions {
  int architecture;  ///< 90 is compute capability 9.0
  int rung;
  kernels::MathFunction function;
  int first;          ///< of a thread that evaluates the function once, from its beginning to its end
  int special;        ///< among them those of the special function unit
  int again;          ///< of each further evaluation, with the loop around it
  int special_again;  ///< among them those of the special function unit
};

/// Of kernels/fast_math/fast_math.cuh as it was when this was written.
inline constexpr const char* kSassOfSource = "b354b035257a517850cb6de4040ebebb12eebdfe5f284f094c14e154608ee918";

// clang-format off: a row for each kernel
inline constexpr SassInstructions kSassInstructions[] = {
    {75, 0, kernels::MathFunction::copy, 18, 0, 5, 0},
    {75, 0, kernels::MathFunction::exponential, 28, 1, 12, 1},
    {75, 0, kernels::MathFunction::sine, 46, 0, 32, 0},
    {75, 0, kernels::MathFunction::sigmoid, 40, 2, 26, 2},
    {75, 0, kernels::MathFunction::gelu, 42, 2, 26, 2},
    {75, 0, kernels::MathFunction::inverse_root, 40, 2, 28, 2},
    {75, 1, kernels::MathFunction::copy, 18, 0, 5, 0},
    {75, 1, kernels::MathFunction::exponential, 23, 1, 10, 1},
    {75, 1, kernels::MathFunction::sine, 20, 1, 7, 1},
    {75, 1, kernels::MathFunction::sigmoid, 25, 2, 12, 2},
    {75, 1, kernels::MathFunction::gelu, 31, 2, 17, 2},
    {75, 1, kernels::MathFunction::inverse_root, 23, 1, 10, 1},
    {80, 0, kernels::MathFunction::copy, 21, 0, 5, 0},
    {80, 0, kernels::MathFunction::exponential, 31, 1, 12, 1},
    {80, 0, kernels::MathFunction::sine, 48, 0, 31, 0},
    {80, 0, kernels::MathFunction::sigmoid, 41, 2, 25, 2},
    {80, 0, kernels::MathFunction::gelu, 45, 2, 26, 2},
    {80, 0, kernels::MathFunction::inverse_root, 41, 2, 26, 2},
    {80, 1, kernels::MathFunction::copy, 21, 0, 5, 0},
    {80, 1, kernels::MathFunction::exponential, 26, 1, 10, 1},
    {80, 1, kernels::MathFunction::sine, 23, 1, 7, 1},
    {80, 1, kernels::MathFunction::sigmoid, 28, 2, 12, 2},
    {80, 1, kernels::MathFunction::gelu, 34, 2, 17, 2},
    {80, 1, kernels::MathFunction::inverse_root, 26, 1, 10, 1},
    {90, 0, kernels::MathFunction::copy, 25, 0, 5, 0},
    {90, 0, kernels::MathFunction::exponential, 35, 1, 12, 1},
    {90, 0, kernels::MathFunction::sine, 52, 0, 32, 0},
    {90, 0, kernels::MathFunction::sigmoid, 45, 2, 25, 2},
    {90, 0, kernels::MathFunction::gelu, 49, 2, 26, 2},
    {90, 0, kernels::MathFunction::inverse_root, 45, 2, 25, 2},
    {90, 1, kernels::MathFunction::copy, 25, 0, 5, 0},
    {90, 1, kernels::MathFunction::exponential, 30, 1, 10, 1},
    {90, 1, kernels::MathFunction::sine, 27, 1, 7, 1},
    {90, 1, kernels::MathFunction::sigmoid, 32, 2, 12, 2},
    {90, 1, kernels::MathFunction::gelu, 38, 2, 17, 2},
    {90, 1, kernels::MathFunction::inverse_root, 30, 1, 10, 1},
    {100, 0, kernels::MathFunction::copy, 25, 0, 5, 0},
    {100, 0, kernels::MathFunction::exponential, 35, 1, 12, 1},
    {100, 0, kernels::MathFunction::sine, 52, 0, 34, 0},
    {100, 0, kernels::MathFunction::sigmoid, 45, 2, 25, 2},
    {100, 0, kernels::MathFunction::gelu, 49, 2, 26, 2},
    {100, 0, kernels::MathFunction::inverse_root, 45, 2, 25, 2},
    {100, 1, kernels::MathFunction::copy, 25, 0, 5, 0},
    {100, 1, kernels::MathFunction::exponential, 30, 1, 10, 1},
    {100, 1, kernels::MathFunction::sine, 27, 1, 7, 1},
    {100, 1, kernels::MathFunction::sigmoid, 32, 2, 12, 2},
    {100, 1, kernels::MathFunction::gelu, 38, 2, 17, 2},
    {100, 1, kernels::MathFunction::inverse_root, 30, 1, 10, 1},
};
// clang-format on

}  // namespace tenfold
