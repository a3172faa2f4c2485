#pragma once
// The same training from C++ and from Python, side by side.

#include <string>

#include "common/pages/book/page.h"

namespace tenfold {

/// For each machine of results/, those of results/REFERENCE first: the ratios of bench/training.json, what a start
/// takes, and the cases of lessons that have a variant "Python eager", with all of their variants. "Not yet measured"
/// where there is nothing.
std::string beside_python_markdown(const Page& page);

}  // namespace tenfold
