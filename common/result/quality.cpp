#include "common/result/quality.h"

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "common/base/labels.h"

namespace tenfold {
namespace {

const LabelNames<Quality>& quality_names() {
  static const LabelNames<Quality> names = {{Quality::not_worse, "NOT WORSE"}, {Quality::worse, "WORSE"},
                                            {Quality::ambiguous, "AMBIGUOUS"}, {Quality::undecided, "UNDECIDED"},
                                            {Quality::invalid, "INVALID"},     {Quality::skipped, "SKIPPED"}};
  return names;
}

}  // namespace

std::string to_string(Quality label) { return quality_names().at(label); }

Quality quality_from(const std::string& text) { return label_named(quality_names(), text); }

std::string to_string(Better better) { return better == Better::lower ? "lower" : "higher"; }

Better better_from(const std::string& text) {
  if (text != "lower" && text != "higher") throw std::invalid_argument("'" + text + "' is neither lower nor higher");
  return text == "lower" ? Better::lower : Better::higher;
}

QualityVerdict judge_quality(const std::vector<double>& baseline, const std::vector<double>& technique,
                             const Metric& metric) {
  if (baseline.empty() || baseline.size() != technique.size())
    throw std::invalid_argument("judge_quality: the variants have unequal numbers of seeds, or none");
  std::vector<double> differences;
  for (size_t i = 0; i < baseline.size(); ++i) differences.push_back(technique[i] - baseline[i]);
  QualityVerdict verdict;
  const double mean = std::accumulate(baseline.begin(), baseline.end(), 0.0) / static_cast<double>(baseline.size());
  verdict.margin = metric.relative ? metric.margin * std::abs(mean) : metric.margin;
  verdict.difference = mean_interval(differences);
  if (static_cast<int>(baseline.size()) < kFewestSeeds) return verdict;

  // How much worse it may be at most, and at least.
  const bool lower = metric.better == Better::lower;
  const double most = lower ? verdict.difference.high : -verdict.difference.low,
               least = lower ? verdict.difference.low : -verdict.difference.high;
  verdict.label = most <= verdict.margin   ? Quality::not_worse
                  : least > verdict.margin ? Quality::worse
                                           : Quality::ambiguous;
  return verdict;
}

std::optional<double> seconds_to(const Curve& curve, double target, Better better, Clock clock) {
  const std::vector<int64_t>& ns = curve.ns(clock);
  if (ns.size() != curve.quality.size())
    throw std::invalid_argument("seconds_to: a curve's columns are not equally long");
  for (size_t i = 0; i < ns.size(); ++i) {
    const double quality = curve.quality[i];
    if (better == Better::lower ? quality > target : quality < target) continue;
    const auto end = static_cast<double>(ns[i]);
    if (i == 0) return 1e-9 * end;
    const double before = curve.quality[i - 1];
    const auto begin = static_cast<double>(ns[i - 1]);
    return 1e-9 * (begin + (end - begin) * (target - before) / (quality - before));
  }
  return std::nullopt;
}

TimeToQuality judge_time_to_quality(const std::vector<Curve>& baseline, const std::vector<Curve>& technique,
                                    Better better, double margin, Clock clock) {
  if (baseline.empty() || baseline.size() != technique.size())
    throw std::invalid_argument("judge_time_to_quality: the variants have unequal numbers of seeds, or none");
  TimeToQuality result;
  std::vector<double> ratios;
  for (size_t i = 0; i < baseline.size(); ++i) {
    if (baseline[i].quality.empty()) throw std::invalid_argument("judge_time_to_quality: a curve without evaluations");
    const double target = baseline[i].quality.back() + (better == Better::lower ? margin : -margin);
    const double first = baseline[i].quality.front();
    result.at_once += better == Better::lower ? first <= target : first >= target;
    const std::optional<double> theirs = seconds_to(baseline[i], target, better, clock),
                                own = seconds_to(technique[i], target, better, clock);
    if (!own) continue;
    ++result.reached;
    if (!(*theirs > 0) || !(*own > 0))
      throw std::invalid_argument("judge_time_to_quality: an evaluation before any training");
    ratios.push_back(*theirs / *own);
  }
  if (ratios.size() < baseline.size() || result.at_once > 0) return result;
  result.ratio = ratios.size() == 1 ? Interval{ratios[0], ratios[0], ratios[0], 0} : student_interval(ratios);
  if (static_cast<int>(ratios.size()) >= kFewestSeeds) result.label = speed_label(*result.ratio);
  return result;
}

}  // namespace tenfold
