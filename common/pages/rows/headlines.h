#pragma once
// The end of a tour: one headline for each lesson, and the surprises.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/pages/rows/rows.h"

namespace tenfold {

/// What stands for a lesson: the headline's verdict where the lesson names one that was measured; else the first of a
/// technique that is meant to be right; nothing without either. With `gpu`, only cases on such a device, or only
/// others. It points into the result.
std::optional<VerdictRow> headline_of(const Result& result, std::optional<bool> gpu = std::nullopt);

/// One row for each lesson with a verdict: that of its headline, or of its first technique that is no trap. Then each
/// surprise, trap that was not caught and failure, with its case, and how far predictions were off. No line is wider
/// than `width` unless a word is.
std::string format_headlines(const std::vector<Result>& results, size_t width = 80);

}  // namespace tenfold
