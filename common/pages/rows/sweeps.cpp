#include "common/pages/rows/sweeps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/files.h"
#include "common/base/text.h"

namespace tenfold {

namespace fs = std::filesystem;

std::string sweep_file(const std::string& lesson, const std::string& setting, const std::string& case_name) {
  return number_of_name(lesson) + "_" + file_part(setting) + "_" + file_part(case_name) + ".json";
}

bool is_sweep(const Result& result) {
  return !result.cases.empty() &&
         std::ranges::all_of(result.cases, [](const CaseResult& c) { return c.sweep.has_value(); });
}

std::string sweep_file(const Result& result) {
  const CaseResult& point = result.cases.front();
  return sweep_file(result.lesson, point.sweep.value().setting, swept_case(point));
}

std::string swept_case(const CaseResult& point) {
  return point.name.substr(0, point.name.rfind(" " + point.sweep.value().setting + "="));
}

std::vector<Result> sweeps_in(const fs::path& folder) {
  std::vector<Result> sweeps;
  for (const fs::path& file : json_files_in(folder)) {
    sweeps.push_back(read_result(file));
    for (const CaseResult& c : sweeps.back().cases) {
      if (!c.sweep) throw FileError(file.string() + ": case '" + c.name + "' is no point of a sweep");
    }
  }
  return sweeps;
}

std::vector<Result> published_sweeps(const fs::path& root, const std::string& machine) {
  return sweeps_in(root / "results" / machine / "sweeps");
}

std::optional<double> number_of(const SettingValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::vector<const CaseResult*> points_of(const Result& sweep) {
  std::vector<const CaseResult*> points;
  for (const CaseResult& c : sweep.cases) points.push_back(&c);
  // Equal ones in their order in the sweep.
  const auto key = [](const CaseResult* c) { return std::pair(number_of(c->sweep.value().value), c); };
  std::sort(points.begin(), points.end(), [&](const CaseResult* a, const CaseResult* b) { return key(a) < key(b); });
  return points;
}

std::vector<SweptPoint> swept_points(const std::vector<CaseResult>& cases, const std::string& technique,
                                     bool* numbers) {
  std::vector<SweptPoint> points;
  *numbers = true;
  for (const CaseResult& c : cases) {
    const Verdict* verdict = verdict_of(c, technique);
    const VariantResult* variant = variant_of(c, technique);
    if (!c.sweep || !verdict || !variant || (!verdict->speed.ratio && !verdict->memory.ratio)) continue;
    const auto number = number_of(c.sweep->value);
    *numbers = *numbers && number.has_value();
    points.push_back({to_string(c.sweep->value), number.value_or(0), verdict->speed.ratio, verdict->speed.low,
                      verdict->speed.high, verdict->memory.ratio, variant->predicted.speed_ratio});
  }
  if (*numbers)
    std::sort(points.begin(), points.end(),
              [](const SweptPoint& a, const SweptPoint& b) { return a.number < b.number; });
  else  // words stand beside each other in the order given
    for (size_t i = 0; i < points.size(); ++i) points[i].number = static_cast<double>(i);
  return points;
}

bool spans_logs(const std::vector<SweptPoint>& points) {
  return !points.empty() && points.front().number > 0 && points.back().number >= 4 * points.front().number;
}

std::optional<Crossover> crossover(const std::vector<SweptPoint>& points) {
  const auto any = [&](auto decided) { return std::any_of(points.begin(), points.end(), decided); };
  if (!any([](const SweptPoint& p) { return p.low && *p.low > 1; }) ||
      !any([](const SweptPoint& p) { return p.high && *p.high < 1; }))
    return std::nullopt;
  for (size_t i = 1; i < points.size(); ++i) {
    const SweptPoint &a = points[i - 1], &b = points[i];
    if (!a.speed || !b.speed || (*a.speed < 1) == (*b.speed < 1)) continue;
    const double share = std::log(*a.speed) / (std::log(*a.speed) - std::log(*b.speed));
    const double at =
        spans_logs(points) ? a.number * std::pow(b.number / a.number, share) : a.number + (b.number - a.number) * share;
    return Crossover{at, *b.speed > 1};
  }
  return std::nullopt;
}

std::string decided_text(const std::vector<SweptPoint>& points, bool rising) {
  std::vector<const SweptPoint*> from_fast;
  for (const SweptPoint& point : points) from_fast.push_back(&point);
  if (rising) std::reverse(from_fast.begin(), from_fast.end());
  const SweptPoint* last = nullptr;
  for (const SweptPoint* point : from_fast) {
    if (!point->low || *point->low <= 1) break;
    last = point;
  }
  if (!last) return "crosses 1";
  return (rising ? "faster from " : "faster up to ") + last->value;
}

}  // namespace tenfold
