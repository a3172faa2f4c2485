#pragma once
// The figure of work under a machine's roofs.

#include <optional>
#include <string>
#include <vector>

#include "common/pages/figures/figure_specs.h"

namespace tenfold {

/// The machine's roofline with the steps of all results under it, those of `lesson` marked. The results are of one
/// machine. Nothing where its ceilings were not measured, or no step's arithmetic is known.
std::optional<Figure> roofline_figure(const std::vector<Result>& results, const std::string& lesson);

}  // namespace tenfold
