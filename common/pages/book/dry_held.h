#pragma once
// What a dry GPU said of lessons' cases, held against what a real card measured of the same ones.

#include <string>
#include <vector>

#include "common/pages/book/page.h"

namespace tenfold {

/// The part "held": `words` are a machine of results/ with a GPU and a card that is not there, "h200 H100". A row for
/// each technique that the machine measured on its GPU and the card has in a case of the same name and size, whose
/// settings agree where both state them: both ratios, both steps of the baseline and the host's share of each. Throws
/// std::invalid_argument, one line, for other words, and for a machine or card without results.
std::string held_part(const Page& page, const std::vector<std::string>& words);

}  // namespace tenfold
