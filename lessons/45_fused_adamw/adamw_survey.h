#pragma once
// Survey "counted" of lesson 45: what one update of the MLP's parameters calls and moves, counted on any machine.

#include <functional>
#include <vector>

#include "common/harness/lesson.h"
#include "kernels/adamw/adamw.h"

namespace tenfold::inline lesson_45 {

/// Makes an update of these parameters, which have gradients.
using MakeUpdate = std::function<std::function<void()>(std::vector<torch::Tensor> parameters)>;

/// Notes how many operators of LibTorch an update calls, and the bytes per parameter that they move: their inputs and
/// outputs, and the `writes` values of each parameter that they change without returning them.
void note_operators(const Trial& trial, int writes, const MakeUpdate& make_update);

/// Notes of each rung of kernels/adamw the launches and the bytes per parameter that its requests ask for, in sectors,
/// under the microscope. Throws std::runtime_error when a rung is wrong.
void note_adamw_kernel(const Trial& trial, const kernels::AdamWSettings& settings);

}  // namespace tenfold::inline lesson_45
