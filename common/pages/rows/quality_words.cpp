#include "common/pages/rows/quality_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "common/base/text.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/quality.h"
#include "common/result/statistics.h"

namespace tenfold {

std::string quality_label(const QualityResult& quality, Better better) {
  const auto& worse_end = better == Better::lower ? quality.high : quality.low;
  if (quality.label != to_string(Quality::not_worse) || !worse_end || !quality.margin) return quality.label;
  const double gain = better == Better::lower ? -*worse_end : *worse_end;
  return gain > *quality.margin ? "BETTER" : quality.label;
}

std::string quality_verdict_text(const QualityResult& quality, Better better) {
  if (!quality.difference) return quality_label(quality, better);
  // To a hundredth of the margin: what is smaller decides nothing.
  const double margin = quality.margin.value_or(0);
  const int decimals = margin > 0 ? std::max(0, 2 - static_cast<int>(std::floor(std::log10(margin)))) : 3;
  const auto sign = [decimals](double value) {
    std::array<char, 64> out{};
    const bool zero = std::abs(value) < 0.5 * std::pow(10, -decimals);  // a sign would be of a rounding
    std::snprintf(out.data(), out.size(), zero ? "%.*f" : "%+.*f", decimals, zero ? 0 : value);
    return std::string(out.data());
  };
  std::string text = quality_label(quality, better) + " " + sign(*quality.difference);
  if (quality.low && quality.high) text += " [" + sign(*quality.low) + ", " + sign(*quality.high) + "]";
  return text;
}

std::string time_to_quality_text(const Verdict& verdict) {
  if (!verdict.quality || !verdict.quality->difference) return "-";
  if (verdict.quality->reached < verdict.quality->seeds)
    return "reached by " + std::to_string(verdict.quality->reached) + " of " + std::to_string(verdict.quality->seeds) +
           " seeds";
  const std::string reason = no_time_because(verdict);
  return reason.empty() ? speed_text(verdict.speed) : verdict.speed.label + ": " + reason;
}

std::string no_time_because(const Verdict& verdict) {
  if (!verdict.quality || !verdict.quality->difference || verdict.quality->reached < verdict.quality->seeds ||
      verdict.quality->at_once == 0)
    return "";
  return "in " + std::to_string(verdict.quality->at_once) + " of " + std::to_string(verdict.quality->seeds) +
         " seeds the baseline is there at its first evaluation";
}

std::string metric_text(const CaseResult& c) {
  const Metric& metric = *c.metric;
  const auto with_unit = [&](double value) {
    return human_number(value) + (metric.unit.empty() ? "" : " " + metric.unit);
  };
  std::string margin = metric.relative      ? human_percent(metric.margin) + " of the baseline's"
                       : metric.unit == "%" ? human_number(metric.margin) + " points"
                                            : with_unit(metric.margin);
  for (const Verdict& verdict : c.verdicts) {
    if (!metric.relative || !verdict.quality || !verdict.quality->margin) continue;
    margin = with_unit(*verdict.quality->margin) + " (" + margin + ")";
    break;
  }
  return metric.name + (metric.unit.empty() ? "" : " in " + metric.unit) + ", " + to_string(metric.better) +
         " is better; margin " + margin;
}

std::string training_time_text(const CaseResult& c, const VariantResult& variant) {
  if (!variant.curves) return "-";
  std::vector<double> seconds;
  for (const Curve& curve : *variant.curves) seconds.push_back(1e-9 * static_cast<double>(curve.ns(c.clock).back()));
  return seconds.empty() ? "-" : human_seconds(median(seconds));
}

std::string training_rate_text(const CaseResult& c, const VariantResult& variant) {
  std::vector<double> rates;
  for (const Curve& curve : variant.curves.value_or(std::vector<Curve>())) {
    if (curve.items && curve.ns(c.clock).back() > 0)
      rates.push_back(1e9 * static_cast<double>(*curve.items) / static_cast<double>(curve.ns(c.clock).back()));
  }
  return rates.empty() ? "" : human_number(median(rates));
}

bool has_peaks(const CaseResult& c) {
  return std::ranges::any_of(c.variants, [](const VariantResult& variant) { return variant.peak().has_value(); });
}

std::string quality_text(const std::vector<double>& values) {
  if (values.empty()) return "-";
  std::string text = human_number(median(values));
  if (values.size() > 1) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    text +=
        " (" + human_number(*low) + " to " + human_number(*high) + ") of " + std::to_string(values.size()) + " seeds";
  }
  return text;
}

}  // namespace tenfold
