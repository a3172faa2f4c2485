#pragma once
// The figure of a survey.

#include <optional>
#include <string>
#include <vector>

#include "common/pages/figures/figure_specs.h"

namespace tenfold {

/// What a survey counted or timed, a bar each: the note `what` of every look that has it, or, where `what` is a look,
/// its notes of the unit that most of them have. Nothing where there is neither.
std::optional<Figure> notes_figure(const CaseResult& survey, const std::string& what);

}  // namespace tenfold
