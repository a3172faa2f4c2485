#pragma once
// A forecast of a step on more GPUs as words: for the terminal and for pages.

#include <string>
#include <vector>

#include "common/machine/scaling.h"

namespace tenfold {

std::vector<std::string> forecast_heads();

/// "64", "196 ms", "2.8 s", "2.9 s", "99 % to 100 %". `measured`: seconds of the step that was measured.
std::vector<std::string> forecast_cells(int gpus, double exchange, const StepBounds& step, double measured);

}  // namespace tenfold
