#pragma once
// The numbers that looks and variants noted, of two sides: counts must be equal, times and rates have a ratio.

#include <optional>
#include <string>
#include <vector>

#include "common/result/result.h"
#include "common/result/statistics.h"

namespace tenfold {

enum class NoteKind {
  count,  ///< of things or bytes: follows from the code, and so must be equal on every machine
  time,
  rate,   ///< things for each second
  share,  ///< a quotient, "x" or "%": whether of counts or of times its unit does not tell
};
NoteKind note_kind(const std::string& unit);

/// A number that both sides noted.
struct ComparedNote {
  std::string name, unit;
  NoteKind kind = NoteKind::count;
  double a = 0, b = 0;
  /// Where both sides have one: of a training's seeds, or noted as "NAME interval low" and "NAME interval high".
  std::optional<Interval> interval_a, interval_b;

  /// Both are the same number; quotients of counts but for what rounding does to them.
  bool equal() const;
  /// B over A; none where one is not positive.
  std::optional<double> ratio() const;
  /// "equal", "NOT EQUAL"; of what has intervals "intervals meet", "higher", "lower", which is B's; else empty: a
  /// number without an interval decides nothing.
  std::string verdict() const;
};

/// What one variant noted on both sides.
struct NotedRow {
  std::string lesson, case_name, variant;
  int ranks = 1;
  std::vector<ComparedNote> notes;
  std::vector<std::string> only_a, only_b;  ///< names
  std::string unlike;                       ///< what may make counts differ: "preset quick in A, full in B"
};

/// Joins notes by name and unit. A note whose unit differs is on one side only.
NotedRow compare_notes(const VariantResult& a, const VariantResult& b);

/// Counts that are not equal.
int unequal_counts(const std::vector<NotedRow>& rows);

}  // namespace tenfold
