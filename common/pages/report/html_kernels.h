#pragma once
// The report's part about kernels: what their rungs ask of memory, from the surveys of the lessons about kernels.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A table for each survey of a lesson of chapter 4: a row for each rung, a column for each count. Of the lines of a
/// kernel the worst one counts. Numbers that a survey notes as "..., rung 2" or "rung 2, ..." get a row of their own.
std::string kernels_section(const std::vector<Result>& results);

}  // namespace tenfold
