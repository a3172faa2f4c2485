#pragma once
// The figure of a stack of techniques.

#include <optional>
#include <string>
#include <vector>

#include "common/pages/figures/figure_specs.h"

namespace tenfold {

/// What each lever of a stack brings, a bar from what those below it reached: common/result/lever_gains.h. Nothing
/// where the case has no such stack.
std::optional<Figure> waterfall_figure(const CaseResult& c, const CaseResult* training);

}  // namespace tenfold
