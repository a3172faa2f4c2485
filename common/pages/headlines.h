#pragma once
// The end of a tour: one headline for each lesson, and the surprises.

#include <cstddef>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// One row for each lesson with a verdict: that of its headline, or of its first technique that is no trap. Then each
/// surprise, trap that was not caught and failure, with its case. No line is wider than `width` unless a word is.
std::string format_headlines(const std::vector<Result>& results, size_t width = 80);

}  // namespace tenfold
