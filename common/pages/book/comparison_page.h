#pragma once
// Two published machines side by side, as parts of a page.

#include <string>
#include <vector>

#include "common/pages/book/page.h"

namespace tenfold {

/// "card A B", "rows A B [LESSON...]", "noted A B [LESSON...]", "sweeps A B", "refused A B": what `./tenfold compare
/// results/A results/B` prints of it. Throws std::invalid_argument for another word, or a machine without results.
std::string compared_markdown(const Page& page, const std::vector<std::string>& words);

}  // namespace tenfold
