#pragma once
// What compare, reproduce and the book say of two sides, as rows of cells: the first is the header. A terminal and a
// page lay them out each in its own way.

#include <array>
#include <string>
#include <vector>

#include "common/pages/rows/compare_sweeps.h"
#include "common/result/compare_results.h"

namespace tenfold {

using Cells = std::vector<std::vector<std::string>>;

/// What the two sides are called: {"A", "B"}, {"theirs", "yours"}.
using Sides = std::array<std::string, 2>;
inline const Sides kAB = {"A", "B"};

/// "1.02x [0.98, 1.05]", "1.02x [0.98, 1.05] few rounds".
std::string interval_text(const Interval& interval);

/// The rows of verdicts; only the header without one. A row names its lesson by number.
Cells compared_cells(const std::vector<ComparedRow>& rows);

/// The same with each lesson above its rows: across a part of theirs, if one is named, and `within` one set of results.
Cells compared_cells_by_lesson(const std::vector<ComparedRow>& rows, const std::string& across, bool within);

/// What looks and variants noted: the counts of a case that are equal in one row, everything else in a row of its own.
Cells noted_cells(const std::vector<NotedRow>& noted, const Sides& sides);

/// A row for each point of each sweep, and behind them one with where each side's speed passes 1.
Cells swept_cells(const std::vector<ComparedSweep>& sweeps, const Sides& sides);

/// A line for each row with its reason; rows of one lesson that follow each other with one reason share a line, which
/// counts them.
std::vector<std::string> refused_lines(const std::vector<RefusedRow>& refused);

/// The cells in columns, for a terminal; empty when there is only a header.
std::string in_columns(const Cells& cells, size_t width = 140);

}  // namespace tenfold
