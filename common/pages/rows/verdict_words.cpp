#include "common/pages/rows/verdict_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/result/dry_counted.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

constexpr const char* kAmbiguous = "AMBIGUOUS";

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

std::string off_text(const Verdict& verdict, const char* of) {
  return predictions_off(verdict).contains(of) ? ", off" : "";
}

}  // namespace

std::string speed_text(const SpeedResult& speed) {
  if (!speed.ratio || !speed.low || !speed.high) return ratio_text(speed);
  return speed.label + " " + human_ratio(*speed.ratio, *speed.low, *speed.high);
}

std::string ratio_text(const SpeedResult& speed) {
  if (speed.label == kAmbiguous && speed.ratio && speed.low && speed.high)
    return speed.label + " " + human_ratio(*speed.ratio, *speed.low, *speed.high);
  return speed.ratio ? speed.label + " " + human_ratio(*speed.ratio) : speed.label;
}

std::string number_text(const SpeedResult& speed) {
  if (!speed.ratio) return "-";
  return speed.label == kAmbiguous ? ratio_text(speed) : human_ratio(*speed.ratio);
}

std::string host_mark(const VariantResult& variant, const VariantResult& baseline) {
  constexpr double kShare = 1.0 / 5;
  constexpr double kSlowLaunch = 20e-6;  // seconds; lessons 25 and 43 in results/h200: a step over its launches
  const auto is_of_host = [](const VariantResult& of) {
    if (!of.split) return false;
    const double step = step_seconds(*of.split);
    const auto launches = of.counted.find(kLaunches);
    const bool may_wait = launches != of.counted.end() && launches->second * kSlowLaunch >= step;
    return may_wait || of.split->host >= kShare * step;
  };
  return is_of_host(variant) || is_of_host(baseline) ? " (host)" : "";
}

std::string memory_text(const MemoryResult& memory) {
  return memory.ratio ? memory.label + " " + human_ratio(*memory.ratio) : "-";
}

std::string agreement_text(const Verdict& verdict) {
  if (!verdict.agreement) return "-";
  const AgreementResult& agreement = *verdict.agreement;
  if (agreement.training)
    return (agreement.is_open() ? "open" : *agreement.quality) + " in '" + *agreement.training + "'";
  if (!agreement.worst) return agreement.pass ? "agrees" : "DIFFERS";
  if (agreement.pass && *agreement.worst == 0) return "exact";
  return (agreement.pass ? "agrees " : "DIFFERS ") + short_number(*agreement.worst);
}

std::string expectation_text(const VariantResult& variant, const Verdict& verdict) {
  const AsExpected& came = verdict.as_expected;
  if (came.caught)
    return !*came.caught                      ? "NOT CAUGHT"
           : variant.expected->kind == "trap" ? "trap caught"
                                              : "out of memory, as expected";
  if (!came.valid.value_or(true)) return "INVALID";
  if (!variant.expected || variant.status != "ok") return "-";
  // What was stated of speed and of memory, each with what became of it.
  std::vector<std::pair<std::string, std::string>> parts;
  const auto add = [&](const char* what, const std::string& stated, const std::optional<bool>& met) {
    if (stated != "ANY") parts.emplace_back(what, !met ? "open" : *met ? "as expected" : "SURPRISE");
  };
  add("quality", variant.expected->quality.value_or("ANY"), came.quality);
  // Of a dry GPU nothing is known where none was modelled.
  if (variant.source != "dry" || verdict.speed.ratio) add("speed", variant.expected->speed, came.speed);
  add("memory", variant.expected->memory, came.memory);
  if (parts.empty()) return "-";
  const auto same = [&](const auto& part) { return part.second == parts[0].second; };
  if (parts.size() > 1 && std::ranges::all_of(parts, same)) return parts[0].second;
  for (const auto& [what, became] : parts) {
    if (became == "SURPRISE") return "SURPRISE: " + what;
  }
  std::vector<std::string> texts;
  for (const auto& [what, became] : parts) texts.push_back(what + " " + became);
  return joined(texts);
}

bool is_surprise(const std::string& expectation) {
  return expectation.starts_with("SURPRISE") || expectation == "NOT CAUGHT" || expectation == "INVALID";
}

std::string prediction_text(const VariantResult& variant, const Verdict& verdict) {
  if (!variant.predicted.speed_ratio) return "-";
  std::string out = human_ratio(*variant.predicted.speed_ratio);
  if (const auto error = verdict.prediction_error.find("speed"); error != verdict.prediction_error.end()) {
    out += ", error " + human_percent(std::expm1(error->second), true) +
           off_text(verdict, "speed");  // stored as a logarithm
  }
  return out;
}

std::string predicted_peak_text(const VariantResult& variant, const Verdict& verdict) {
  if (!variant.predicted.peak_bytes) return "-";
  std::string out = human_bytes(static_cast<double>(*variant.predicted.peak_bytes));
  if (const auto error = verdict.prediction_error.find("peak"); error != verdict.prediction_error.end())
    out += ", error " + human_percent(error->second, true) + off_text(verdict, "peak");
  return out;
}

}  // namespace tenfold
