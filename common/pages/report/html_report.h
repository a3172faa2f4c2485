#pragma once
// out/report.html: one page with everything in it, for somebody who does not know the project.

#include <string>
#include <utility>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A self-contained page from report_template.html: inline CSS for light, dark and paper, inline SVG, no request to
/// anywhere. Its only script filters and sorts the verdicts; without it all of them are shown. `not_run` names lessons
/// without a result, each with the reason; `sweeps` are results whose cases are points of a sweep. Every text is
/// escaped.
std::string html_report(const std::vector<Result>& results,
                        const std::vector<std::pair<std::string, std::string>>& not_run = {},
                        const std::vector<Result>& sweeps = {});

}  // namespace tenfold
