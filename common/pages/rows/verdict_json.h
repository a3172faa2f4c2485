#pragma once
// Verdicts for a program that reads them: `./tenfold tour --json`.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// An array with an object for each judged technique: labels, ratios and intervals as numbers, and what came of what
/// was stated.
nlohmann::ordered_json verdicts_json(const std::vector<Result>& results);

}  // namespace tenfold
