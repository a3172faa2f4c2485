#pragma once
// Two runs on a dry GPU as one result: memory at the card's size, where nothing is computed, and agreement at size cpu,
// where the CPU computes what the card would.

#include <string>
#include <utility>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// What was checked, with the order in which streams did their work: "late", "early".
using Checked = std::vector<std::pair<std::string, Result>>;

/// The memory that a card would take, each variant with what became of it where numbers were computed: a variant that
/// is INVALID there is so here, and the agreement is that of the order in which it deviates most. Verdicts are drawn
/// anew.
Result with_agreement(Result memory, const Checked& checked);

}  // namespace tenfold
