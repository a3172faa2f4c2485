#include "common/result/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "common/base/labels.h"
#include "common/result/rate_ratio.h"

namespace tenfold {
namespace {

const LabelNames<Speed>& speed_names() {
  static const LabelNames<Speed> names = {{Speed::faster, "FASTER"},       {Speed::slower, "SLOWER"},
                                          {Speed::same, "SAME"},           {Speed::ambiguous, "AMBIGUOUS"},
                                          {Speed::undecided, "UNDECIDED"}, {Speed::invalid, "INVALID"},
                                          {Speed::skipped, "SKIPPED"}};
  return names;
}

const LabelNames<Memory>& memory_names() {
  static const LabelNames<Memory> names = {
      {Memory::smaller, "SMALLER"}, {Memory::larger, "LARGER"}, {Memory::same, "SAME"}, {Memory::unknown, "UNKNOWN"}};
  return names;
}

const LabelNames<Clock>& clock_names() {
  static const LabelNames<Clock> names = {
      {Clock::wall, "wall"}, {Clock::processor, "processor"}, {Clock::device, "device"}};
  return names;
}

}  // namespace

std::string to_string(Speed label) { return speed_names().at(label); }
std::string to_string(Memory label) { return memory_names().at(label); }
std::string to_string(Clock clock) { return clock_names().at(clock); }
Speed speed_from(const std::string& text) { return label_named(speed_names(), text); }
Memory memory_from(const std::string& text) { return label_named(memory_names(), text); }
Clock clock_from(const std::string& text) { return label_named(clock_names(), text); }

double SpeedVerdict::noise() const { return std::max(std::abs(equal.low - 1), std::abs(equal.high - 1)); }

namespace {

// The interval over all rounds, or the one over the builds' medians if that is wider. `each` quotients come from a
// round.
Interval ratio_interval(const std::vector<double>& quotients, const std::vector<int64_t>& builds, size_t each) {
  const Interval pooled = each == 2 ? rank_of_three_interval(quotients) : median_interval(quotients);
  std::map<int64_t, std::vector<double>> by_build;
  for (size_t i = 0; i < quotients.size(); ++i) by_build[builds[i / each]].push_back(quotients[i]);
  if (by_build.size() < static_cast<size_t>(kFewestBuilds)) return pooled;
  std::vector<double> samples;
  for (const auto& [build, values] : by_build) samples.push_back(median(values));
  const Interval sampled = student_interval(samples);
  return sampled.width() > pooled.width() ? sampled : pooled;
}

}  // namespace

Speed speed_label(const Interval& ratio) {
  if (ratio.low > 1 + kClear) return Speed::faster;
  if (ratio.high < 1 - kClear) return Speed::slower;
  return ratio.low >= 1 - kSame && ratio.high <= 1 + kSame ? Speed::same : Speed::ambiguous;
}

SpeedVerdict judge_speed(const Blocks& baseline_a, const Blocks& baseline_b, const Blocks& technique, Clock clock) {
  for (const Blocks* blocks : {&baseline_a, &baseline_b, &technique}) {
    const std::vector<int64_t>& ns = blocks->ns(clock);
    if (blocks->size() != technique.size() || ns.size() != technique.size()) {
      throw std::invalid_argument("judge_speed: the variants have unequal numbers of rounds");
    }
    if (!ns.empty() && (blocks->items <= 0 || *std::min_element(ns.begin(), ns.end()) <= 0)) {
      throw std::invalid_argument("judge_speed: a block without time or items");
    }
  }
  SpeedVerdict verdict;
  if (technique.size() == 0) return verdict;
  std::vector<double> quotients, aa;
  for (size_t i = 0; i < technique.size(); ++i) {
    const double a = baseline_a.rate(i, clock), b = baseline_b.rate(i, clock), t = technique.rate(i, clock);
    quotients.insert(quotients.end(), {t / a, t / b});
    aa.push_back(b / a);
  }
  verdict.ratio = ratio_interval(quotients, technique.build, 2);
  verdict.equal = ratio_interval(aa, technique.build, 1);
  if (static_cast<int>(technique.size()) < kFewestRounds) return verdict;

  // Identical code measured as different: whatever moved the machine may have moved the technique too, as far. Only a
  // ratio that is clear of 1 by more than that is told.
  verdict.label = speed_label(verdict.ratio);
  const bool moved = verdict.equal.low > 1 + kClear || verdict.equal.high < 1 - kClear;
  if (moved) {
    const double far = std::max(verdict.equal.high, 1 / verdict.equal.low);
    const Speed told = speed_label({verdict.ratio.low / far, verdict.ratio.middle, verdict.ratio.high * far});
    if (told != verdict.label || told == Speed::same) verdict.label = Speed::ambiguous;
  }
  return verdict;
}

Interval rate_ratio(const Blocks& before, const Blocks& after, Clock clock) {
  if (before.size() != after.size() || before.ns(clock).size() != after.ns(clock).size())
    throw std::invalid_argument("rate_ratio: unequal numbers of rounds");
  std::vector<double> quotients;
  for (size_t i = 0; i < after.ns(clock).size(); ++i) quotients.push_back(after.rate(i, clock) / before.rate(i, clock));
  return ratio_interval(quotients, after.build, 1);
}

MemoryVerdict judge_memory(std::optional<int64_t> baseline_bytes, std::optional<int64_t> technique_bytes) {
  if (!baseline_bytes || !technique_bytes || *baseline_bytes <= 0 || *technique_bytes <= 0) return {};
  const double ratio = static_cast<double>(*technique_bytes) / static_cast<double>(*baseline_bytes);
  return {ratio < 1 - kClear ? Memory::smaller : ratio > 1 + kClear ? Memory::larger : Memory::same, ratio};
}

}  // namespace tenfold
