#pragma once
// Case "counted" of lesson 45: what one update of R3's MLP calls and moves, counted on any machine.

#include <functional>
#include <vector>

#include <tenfold/adamw.h>
#include <tenfold/lesson.h>

namespace tenfold {

/// Makes an update of these parameters, which have gradients.
using MakeUpdate = std::function<std::function<void()>(std::vector<torch::Tensor> parameters)>;

/// Notes how many operators of LibTorch an update calls, and the bytes per parameter that they move: their inputs and outputs, and
/// the `writes` lists of the parameters' size that they change without returning them. Returns the empty step.
Step note_operators(const Trial& trial, int writes, const MakeUpdate& make_update);

/// Notes of each rung of kernels/adamw the launches and the bytes per parameter that its requests ask for, in sectors, under the
/// microscope. Returns the empty step. Throws std::runtime_error when a rung is wrong.
Step note_adamw_kernel(const Trial& trial, const kernels::AdamWSettings& settings);

}  // namespace tenfold
