#include "common/pages/rows/compare_sweeps.h"

#include <algorithm>
#include <map>

#include "common/base/text.h"
#include "common/pages/rows/sweeps.h"

namespace tenfold {
namespace {

/// What names a sweep on either side.
std::string key_of(const Result& sweep) {
  const CaseResult& c = sweep.cases.front();
  return sweep.lesson + ", sweep of " + c.sweep.value().setting + ", case " + swept_case(c);
}

const Result* sweep_named(const std::vector<Result>& sweeps, const std::string& key) {
  const auto found = std::ranges::find(sweeps, key, key_of);
  return found == sweeps.end() ? nullptr : &*found;
}

void refuse_alone(const std::vector<Result>& sweeps, const std::vector<Result>& others, const std::string& side,
                  std::vector<RefusedRow>& refused) {
  for (const Result& sweep : sweeps) {
    if (sweep_named(others, key_of(sweep)) == nullptr) refused.push_back({key_of(sweep), "only in " + side});
  }
}

/// The techniques of a sweep, in the order of its first point's verdicts.
std::vector<ComparedSweep> compared(const Result& a, const Result& b, const std::vector<ComparedRow>& rows) {
  std::vector<ComparedSweep> sweeps;
  const CaseResult& first = b.cases.front();
  for (const Verdict& verdict : first.verdicts) {
    ComparedSweep sweep{.lesson = b.lesson,
                        .case_name = swept_case(first),
                        .setting = first.sweep.value().setting,
                        .technique = verdict.technique,
                        .crossover_a = crossover_text(a.cases, verdict.technique),
                        .crossover_b = crossover_text(b.cases, verdict.technique)};
    for (const CaseResult* c : points_of(b)) {
      const auto row = std::ranges::find(rows, row_identity(b, *c, verdict.technique), &ComparedRow::identity);
      if (row == rows.end()) continue;
      sweep.points.push_back({to_string(c->sweep.value().value), row->speed_a, row->speed_b, row->throughput});
    }
    if (!sweep.points.empty()) sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

}  // namespace

std::string crossover_text(const std::vector<CaseResult>& cases, const std::string& technique) {
  bool numbers = true;
  const std::vector<SweptPoint> points = swept_points(cases, technique, &numbers);
  if (!numbers || points.empty() || !std::ranges::any_of(points, [](const SweptPoint& p) { return p.low && p.high; }))
    return "-";
  if (const auto crossing = crossover(points))
    return "at " + human_number(crossing->at) + " (" + decided_text(points, crossing->rising) + ")";
  if (std::ranges::all_of(points, [](const SweptPoint& p) { return p.low && *p.low > 1; }))
    return "none: faster at every point";
  if (std::ranges::all_of(points, [](const SweptPoint& p) { return p.high && *p.high < 1; }))
    return "none: slower at every point";
  return "not decided";
}

ComparedSweeps compare_sweeps(const std::vector<Result>& a, const std::vector<Result>& b) {
  ComparedSweeps out;
  refuse_alone(b, a, "B", out.refused);
  refuse_alone(a, b, "A", out.refused);
  for (const Result& right : b) {
    const Result* left = sweep_named(a, key_of(right));
    if (left == nullptr) continue;
    Comparison comparison = compare_results({*left}, {right});
    std::ranges::move(compared(*left, right, comparison.rows), std::back_inserter(out.sweeps));
    std::ranges::move(comparison.noted, std::back_inserter(out.noted));
    std::ranges::move(comparison.refused, std::back_inserter(out.refused));
  }
  return out;
}

}  // namespace tenfold
