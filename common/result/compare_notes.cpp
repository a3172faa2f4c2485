#include "common/result/compare_notes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace tenfold {
namespace {

constexpr double kRounding = 1e-9;  // relative, of quotients of counts

const std::string kLow = "interval low", kHigh = "interval high", kMedian = "median";

std::string without_end(const std::string& name, const std::string& end) {
  return name.substr(0, name.size() - end.size());
}

/// "a step, properly: " is "a step, properly".
std::string label_of(std::string stem) {
  while (!stem.empty() && (stem.back() == ' ' || stem.back() == ':' || stem.back() == ',')) stem.pop_back();
  return stem;
}

/// A variant's notes, three of which may be one number with its interval.
struct Number {
  std::string unit;
  double value = 0;
  std::optional<Interval> interval;
};

std::map<std::string, Number> numbers_of(const VariantResult& variant) {
  std::map<std::string, Number> numbers;
  std::set<std::string> used;
  for (const auto& [name, note] : variant.notes) {
    if (!name.ends_with(kLow)) continue;
    const std::string stem = without_end(name, kLow);
    const auto high = variant.notes.find(stem + kHigh);
    if (high == variant.notes.end() || high->second.unit != note.unit) continue;
    const auto middle = variant.notes.find(stem + kMedian);
    const bool has_median = middle != variant.notes.end() && middle->second.unit == note.unit;
    const double low = note.value, top = high->second.value;
    const double value = has_median ? middle->second.value : (low + top) / 2;
    numbers[label_of(stem)] = {note.unit, value, Interval{.low = low, .high = top, .middle = value, .coverage = 0.95}};
    used.insert({name, high->first});
    if (has_median) used.insert(middle->first);
  }
  for (const auto& [name, note] : variant.notes) {
    if (used.contains(name)) continue;
    Number number{note.unit, note.value, std::nullopt};
    if (note.of_seeds && note.of_seeds->size() > 1) number.interval = mean_interval(*note.of_seeds);
    numbers[name] = number;
  }
  return numbers;
}

}  // namespace

NoteKind note_kind(const std::string& unit) {
  static const std::set<std::string> times = {"s", "seconds", "ms", "us", "ns"}, shares = {"x", "%", "points"};
  if (times.contains(unit)) return NoteKind::time;
  if (shares.contains(unit) || unit.starts_with("% ")) return NoteKind::share;
  return unit.ends_with("/s") ? NoteKind::rate : NoteKind::count;
}

bool ComparedNote::equal() const { return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b)); }

std::optional<double> ComparedNote::ratio() const { return a > 0 && b > 0 ? std::optional(b / a) : std::nullopt; }

std::string ComparedNote::verdict() const {
  if (kind == NoteKind::count) return equal() ? "equal" : "NOT EQUAL";
  if (!interval_a || !interval_b) return "";
  if (interval_a->high < interval_b->low) return "higher";
  return interval_b->high < interval_a->low ? "lower" : "intervals meet";
}

NotedRow compare_notes(const VariantResult& a, const VariantResult& b) {
  NotedRow row;
  const std::map<std::string, Number> left = numbers_of(a), right = numbers_of(b);
  const auto same = [](const std::map<std::string, Number>& numbers, const std::string& name, const Number& number) {
    const auto found = numbers.find(name);
    return found != numbers.end() && found->second.unit == number.unit ? &found->second : nullptr;
  };
  for (const auto& [name, number] : left) {
    const Number* other = same(right, name, number);
    if (other == nullptr) {
      row.only_a.push_back(name);
      continue;
    }
    row.notes.push_back(
        {name, number.unit, note_kind(number.unit), number.value, other->value, number.interval, other->interval});
  }
  for (const auto& [name, number] : right) {
    if (same(left, name, number) == nullptr) row.only_b.push_back(name);
  }
  return row;
}

int unequal_counts(const std::vector<NotedRow>& rows) {
  int unequal = 0;
  for (const NotedRow& row : rows) {
    unequal += static_cast<int>(std::ranges::count_if(
        row.notes, [](const ComparedNote& note) { return note.kind == NoteKind::count && !note.equal(); }));
  }
  return unequal;
}

}  // namespace tenfold
