#pragma once
// What changed between two pieces of code, line by line.

#include <string>

namespace tenfold {

/// All lines of both in one text: common ones begin with a space, those of `before` alone with -, those of `after`
/// alone with +. As few lines as possible are marked. Lines that differ in a comment at their end alone are common;
/// that of `after` is shown.
std::string line_diff(const std::string& before, const std::string& after);

}  // namespace tenfold
