#pragma once
// Figures with a horizontal axis of time or of a setting.

#include <optional>
#include <string>
#include <vector>

#include "common/pages/figures/figure_specs.h"

namespace tenfold {

/// Live bytes over one step, the baseline above the technique, each part of the step named. The technique is the one of
/// this name, or that with the smallest peak. Nothing where the result holds no timeline of both.
std::optional<Figure> memory_figure(const CaseResult& c, const std::string& technique = "");

/// Speed with its interval and memory over the values of a swept setting, the predicted speed dashed, and the value
/// from which the technique pays. `points` are the cases of a sweep; the technique is the one of this name, or the
/// first that was timed. Nothing with fewer than two points.
std::optional<Figure> sweep_figure(const std::vector<CaseResult>& points, const std::string& technique = "");

}  // namespace tenfold
