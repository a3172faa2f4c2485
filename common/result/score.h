#pragma once
// What was said of a card before it was there, held against what the card measured.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result/compare_results.h"
#include "common/result/result.h"

namespace tenfold {

/// A variant that both have.
struct ScoredRow {
  std::string lesson, case_name, variant;
  SpeedResult said, measured;                   ///< of a baseline without ratios
  std::optional<int64_t> counted_bytes, bytes;  ///< of the peak: said, and measured

  /// Whether the two intervals of the speed ratio meet; nothing without two ratios.
  std::optional<bool> inside() const;
  /// How far the ratio that was said is from the measured one, in either direction: 0.25 for 1.25 or 0.8 times it.
  std::optional<double> miss() const;
  /// Of the peak: said over measured, less 1.
  std::optional<double> peak_error() const;
};

struct Score {
  std::vector<ScoredRow> rows;
  std::vector<RefusedRow> refused;  ///< dry rows without a measured partner, and the reverse

  std::vector<const ScoredRow*> speeds() const;  ///< those with two ratios
  size_t inside() const;
  size_t same_sign() const;  ///< of speeds: FASTER was said and measured, SLOWER, or neither
  /// The median over speeds, and over peaks of the error's size; nothing without one.
  std::optional<double> median_miss() const;
  std::optional<double> median_peak_error() const;
};

/// Joins rows that are alike but for the device: the lesson's version, size and settings must be equal.
Score score(const std::vector<Result>& dry, const std::vector<Result>& measured);

}  // namespace tenfold
