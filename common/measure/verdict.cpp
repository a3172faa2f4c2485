#include <tenfold/verdict.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include <tenfold/statistics.h>

namespace tenfold {
namespace {

constexpr double kClear = 0.01;       // a difference that would interest nobody
constexpr double kWidestSame = 0.05;  // however noisy the machine, SAME never means more than this

const std::map<Speed, std::string>& speed_names() {
  static const std::map<Speed, std::string> names = {
      {Speed::faster, "FASTER"},       {Speed::slower, "SLOWER"},   {Speed::same, "SAME"},      {Speed::ambiguous, "AMBIGUOUS"},
      {Speed::undecided, "UNDECIDED"}, {Speed::invalid, "INVALID"}, {Speed::skipped, "SKIPPED"}};
  return names;
}

const std::map<Memory, std::string>& memory_names() {
  static const std::map<Memory, std::string> names = {
      {Memory::smaller, "SMALLER"}, {Memory::larger, "LARGER"}, {Memory::same, "SAME"}, {Memory::unknown, "UNKNOWN"}};
  return names;
}

template <class Label>
Label find_label(const std::map<Label, std::string>& names, const std::string& text) {
  for (const auto& [label, name] : names) {
    if (name == text) return label;
  }
  throw std::invalid_argument("unknown label '" + text + "'");
}

}  // namespace

std::string to_string(Speed label) { return speed_names().at(label); }
std::string to_string(Memory label) { return memory_names().at(label); }
Speed speed_from(const std::string& text) { return find_label(speed_names(), text); }
Memory memory_from(const std::string& text) { return find_label(memory_names(), text); }

SpeedVerdict judge_speed(const std::vector<Round>& baseline_a, const std::vector<Round>& baseline_b, const std::vector<Round>& technique) {
  if (baseline_a.size() != technique.size() || baseline_b.size() != technique.size()) {
    throw std::invalid_argument("judge_speed: the variants have unequal numbers of rounds");
  }
  std::vector<double> ratios, aa;
  for (size_t i = 0; i < technique.size(); ++i) {
    for (const Round* round : {&baseline_a[i], &baseline_b[i], &technique[i]}) {
      if (!(round->seconds > 0) || round->items <= 0) throw std::invalid_argument("judge_speed: a block without time or items");
    }
    const double a = baseline_a[i].rate(), b = baseline_b[i].rate();
    ratios.push_back(technique[i].rate() / ((a + b) / 2));
    aa.push_back(b / a);
  }
  SpeedVerdict verdict;
  if (ratios.empty()) return verdict;

  const Interval interval = median_interval(ratios);
  const Interval equal = median_interval(aa);
  verdict.ratio = interval.middle;
  verdict.low = interval.low;
  verdict.high = interval.high;
  verdict.noise = std::max(std::abs(equal.low - 1), std::abs(equal.high - 1));
  if (static_cast<int>(ratios.size()) < kFewestRounds) return verdict;

  const double same = std::min(std::max(kClear, 2 * verdict.noise), kWidestSame);
  const bool baselines_differ = equal.low > 1 + kClear || equal.high < 1 - kClear;
  verdict.label = Speed::ambiguous;
  // Identical code measured as different: whatever moved the machine may have moved the technique too.
  if (baselines_differ) return verdict;
  if (interval.low > 1 + kClear) {
    verdict.label = Speed::faster;
  } else if (interval.high < 1 - kClear) {
    verdict.label = Speed::slower;
  } else if (interval.low >= 1 - same && interval.high <= 1 + same) {
    verdict.label = Speed::same;
  }
  return verdict;
}

MemoryVerdict judge_memory(std::optional<int64_t> baseline_bytes, std::optional<int64_t> technique_bytes) {
  if (!baseline_bytes || !technique_bytes || *baseline_bytes <= 0 || *technique_bytes <= 0) return {};
  const double ratio = static_cast<double>(*technique_bytes) / static_cast<double>(*baseline_bytes);
  return {ratio < 1 - kClear ? Memory::smaller : ratio > 1 + kClear ? Memory::larger : Memory::same, ratio};
}

}  // namespace tenfold
