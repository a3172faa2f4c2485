#pragma once
// Sweeps of two sides: their points joined by the setting's value, and where each side's speed passes 1.

#include <string>
#include <vector>

#include "common/result/compare_results.h"

namespace tenfold {

/// A technique over the points that both sides measured alike.
struct ComparedSweep {
  struct Point {
    std::string value;
    SpeedResult speed_a, speed_b;        ///< the technique against its baseline
    std::optional<Interval> throughput;  ///< its items/s, B over A
  };
  std::string lesson, case_name, setting, technique;
  std::vector<Point> points;             ///< lowest value first
  std::string crossover_a, crossover_b;  ///< crossover_text() of all points of either side
};

struct ComparedSweeps {
  std::vector<ComparedSweep> sweeps;
  std::vector<NotedRow> noted;
  std::vector<RefusedRow> refused;  ///< a sweep that only one side has is one row
};

/// Joins points as compare_results() joins rows: the setting's value is part of a row's identity.
ComparedSweeps compare_sweeps(const std::vector<Result>& a, const std::vector<Result>& b);

/// "at 83 (faster up to 64)"; "none: faster at every point", "none: slower at every point", "not decided"; "-" where
/// nothing was timed or the values are words.
std::string crossover_text(const std::vector<CaseResult>& points, const std::string& technique);

}  // namespace tenfold
