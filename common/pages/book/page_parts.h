#pragma once
// What stands between a page's comments: one function for each kind that common/pages/book/generated.h lists.

#include <string>
#include <vector>

#include "common/pages/book/page.h"

namespace tenfold {

/// The text of one part. Throws std::invalid_argument, one line, for an unknown kind, a missing file, symbol or lesson.
std::string page_part(const Page& page, const std::string& kind, const std::vector<std::string>& arguments);

}  // namespace tenfold
