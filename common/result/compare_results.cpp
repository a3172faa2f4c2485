#include "common/result/compare_results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "common/base/text.h"
#include "common/result/judge.h"
#include "common/result/result_rows.h"

namespace tenfold {
namespace {

using Row = ResultRow;

std::vector<IdentityPart> parts_of(const Row& row) { return identity_parts(*row.result, *row.c, row.variant->name); }

std::vector<double> rates(const VariantResult& variant) {
  std::vector<double> rates;
  if (variant.blocks.empty()) return rates;
  // Machines are compared by the clock on the wall, whatever clock decided on either: it is what their users wait for.
  const Blocks& blocks = variant.blocks.front();
  const Clock clock = blocks.device_ns.empty() ? Clock::wall : Clock::device;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks.ns(clock)[i] > 0 && blocks.items > 0) rates.push_back(blocks.rate(i, clock));
  }
  return rates;
}

/// B's gain over A's, from their verdicts. Each interval holds with 95 %; both together, and so the quotient of their
/// ends taken crosswise, with 90 % at least.
std::optional<Interval> gain_of(const Verdict* a, const Verdict* b) {
  if (!a || !b || !a->speed.low || !b->speed.low || !(*a->speed.low > 0) || !(*b->speed.low > 0)) return std::nullopt;
  return Interval{*b->speed.low / *a->speed.high, *b->speed.high / *a->speed.low, *b->speed.ratio / *a->speed.ratio,
                  0.9};
}

/// Why a row has no partner: the parts in which the most similar row of the other side differs.
std::string why_unlike(const Row& row, const std::vector<Row>& others) {
  const auto mine = parts_of(row);
  std::string best;
  size_t fewest = mine.size() + 1;
  for (const Row& other : others) {
    if (other.result->lesson != row.result->lesson || other.variant->name != row.variant->name) continue;
    const auto theirs = parts_of(other);
    std::string differing;
    size_t count = 0;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].value == theirs[i].value) continue;
      ++count;
      differing += (differing.empty() ? "" : ", ") + mine[i].name + " is " +
                   (mine[i].value.empty() ? "none" : mine[i].value) + " here and " +
                   (theirs[i].value.empty() ? "none" : theirs[i].value) + " there";
    }
    if (count < fewest) fewest = count, best = differing;
  }
  return best.empty() ? "the other side has no such lesson or variant" : best;
}

/// What may differ between rows that are joined across this part.
std::set<std::string> left_out(const std::string& across) {
  if (across.empty()) return {};
  if (across == "ranks") return {"ranks", "mesh", "backend"};
  if (across == "device") return {"device", "backend"};
  if (across == "size") return {"size", "settings"};
  return {across};
}

std::string part_of(const Row& row, const std::string& name) {
  for (const IdentityPart& part : parts_of(row)) {
    if (part.name == name) return part.value;
  }
  return "";
}

/// How many times as many ranks or threads B has.
std::optional<double> more_workers(const Row& a, const Row& b, const std::string& across) {
  if (across == "ranks") return static_cast<double>(b.c->ranks) / a.c->ranks;
  if (across == "threads") return static_cast<double>(b.c->threads) / a.c->threads;
  return std::nullopt;
}

Speed label_of(const Interval& interval, double noise) {
  if (interval.coverage == 0) return Speed::undecided;
  const double clear = std::max(kClear, noise);
  if (interval.low > 1 + clear) return Speed::faster;
  if (interval.high < 1 / (1 + clear)) return Speed::slower;
  return interval.low >= 1 - kSame && interval.high <= 1 + kSame ? Speed::same : Speed::ambiguous;
}

/// Final qualities by their seeds.
std::map<int64_t, double> qualities(const Row& row) {
  std::map<int64_t, double> found;
  if (!row.c->metric) return found;
  const auto quality = row.variant->quality.find(row.c->metric->name);
  if (quality == row.variant->quality.end()) return found;
  for (size_t i = 0; i < quality->second.size(); ++i) found[row.c->seed + static_cast<int64_t>(i)] = quality->second[i];
  return found;
}

/// B's less A's, of the seeds that both have.
std::vector<double> quality_differences(const Row& a, const Row& b) {
  const auto left = qualities(a), right = qualities(b);
  std::vector<double> differences;
  for (const auto& [seed, quality] : left) {
    if (const auto found = right.find(seed); found != right.end()) differences.push_back(found->second - quality);
  }
  return differences;
}

/// "is skipped in A (needs a CUDA device)"; empty of a row that is ok.
std::string not_ok(const Row& row, const std::string& side) {
  const VariantResult& variant = *row.variant;
  if (variant.status == "ok") return "";
  return "is " + variant.status + " " + side + (variant.reason.empty() ? "" : " (" + variant.reason + ")");
}

/// Nothing when a row can be compared, else the reason; `side` says which row, "in A".
std::string unusable(const Row& row, const std::string& side) {
  if (std::string reason = not_ok(row, side); !reason.empty()) return reason;
  if (row.variant->source == "modelled") return "is modelled, not measured, " + side;
  if (row.variant->source == "dry") return row.variant->peak() ? "" : "has no peak " + side;
  if (rates(*row.variant).empty() && qualities(row).empty()) return "was not timed " + side;
  return "";
}

/// How a step's items grow with the ranks: "strong", "weak", or nothing of the kind.
std::string scaling_of(const Row& a, const Row& b) {
  const Blocks &left = a.variant->blocks.front(), &right = b.variant->blocks.front();
  const int64_t before = left.items * right.steps, after = right.items * left.steps;
  if (before == after) return "strong";
  return before * b.c->ranks == after * a.c->ranks ? "weak" : "";
}

bool is_crowded(const Row& row) { return ranks_took_turns(*row.c, row.result->machine.cores); }

/// The two sides as messages name them.
struct Sides {
  std::string a = "in A", b = "in B";
};

constexpr const char* kSurveyAcross = "is of a survey, which is compared where nothing differs: without --across";

/// Why looks of surveys are not compared; empty when they are.
std::string unlike_looks(const Row& a, const Row& b, const Sides& sides) {
  for (const auto& [row, side] : {std::pair(&a, sides.a), std::pair(&b, sides.b)}) {
    if (std::string reason = not_ok(*row, side); !reason.empty()) return reason;
  }
  if (a.variant->source != b.variant->source)
    return "is " + a.variant->source + " " + sides.a + " and " + b.variant->source + " " + sides.b;
  if (a.variant->notes.empty() && b.variant->notes.empty()) return "notes no number";
  return "";
}

/// What both noted, and what of how they were measured may make counts differ. Of crowded rows the counts alone.
NotedRow noted(const Row& a, const Row& b, const Sides& sides) {
  NotedRow row = compare_notes(*a.variant, *b.variant);
  row.lesson = b.result->lesson, row.case_name = b.c->name, row.variant = b.variant->name, row.ranks = b.c->ranks;
  if (is_crowded(a) || is_crowded(b))
    std::erase_if(row.notes, [](const ComparedNote& note) { return note.kind != NoteKind::count; });
  const auto differs = [&](const std::string& what, const std::string& left, const std::string& right) {
    if (left == right) return;
    row.unlike += (row.unlike.empty() ? "" : "; ") + what + " " + left + " " + sides.a + ", " + right + " " + sides.b;
  };
  differs("preset", a.c->preset, b.c->preset);
  differs("seed", std::to_string(a.c->seed), std::to_string(b.c->seed));
  return row;
}

class Join {
 public:
  explicit Join(const std::string& across) : across_(across), without_(left_out(across)) {}

  std::string identity(const Row& row) const { return row_identity(*row.result, *row.c, row.variant->name, without_); }

  void refuse(const Row& row, const std::string& reason) { out_.refused.push_back({row.name(), reason}); }

  /// The row of two that are the same but for the part across which they are joined, or the reason why not.
  void add(const Row& left, const Row& right, const Sides& sides) {
    if (right.c->kind == "survey") return add_look(left, right, sides);
    const std::string reason_a = unusable(left, sides.a), reason_b = unusable(right, sides.b);
    if (!reason_a.empty() || !reason_b.empty()) return refuse(right, reason_a.empty() ? reason_b : reason_a);
    const bool dry = left.variant->source == "dry";
    if (dry != (right.variant->source == "dry"))
      return refuse(right, "is of a dry GPU on one side and measured on the other: ./tenfold score DRY MEASURED");
    const std::vector<double> differences = quality_differences(left, right);
    const bool training = left.c->kind == "training";
    const std::vector<double> rates_a = rates(*left.variant), rates_b = rates(*right.variant);
    if (training && differences.size() < 2)
      return refuse(right, "was trained from other seeds " + sides.a + "; measure again with the same --seed");
    ComparedRow row;
    row.identity = identity(right);
    row.lesson = right.result->lesson;
    row.case_name = right.c->name;
    row.variant = right.variant->name;
    row.baseline = right.is_baseline();
    row.peak_a = left.variant->peak();
    row.peak_b = right.variant->peak();
    row.modelled = dry;
    row.crowded = is_crowded(left) || is_crowded(right);
    if (!across_.empty()) {
      row.across_a = part_of(left, across_);
      row.across_b = part_of(right, across_);
      if (row.across_a == row.across_b)
        return refuse(right, across_ + " is " + row.across_a + " on both sides; nothing differs to compare across");
    }
    if (across_ == "ranks" && !training && !dry) {
      row.scaling = scaling_of(left, right);
      if (row.scaling.empty())
        return refuse(right,
                      "a step's items are neither as many " + sides.a + " as " + sides.b + " nor as many on each rank");
    }
    if (training) {
      row.quality = mean_interval(differences);
      row.metric = *left.c->metric;
    } else if (!rates_a.empty() && !rates_b.empty() && !row.crowded) {
      const bool one_process = row.baseline && across_ == "ranks";
      row.throughput = independent_ratio(rates_a, rates_b);
      if (const auto more = more_workers(left, right, across_); more && !one_process) {
        const Interval& gain = *row.throughput;
        row.efficiency = Interval{gain.low / *more, gain.high / *more, gain.middle / *more, gain.coverage};
      }
      row.throughput_label = label_of(*row.throughput, std::max(left.c->noise.value_or(0), right.c->noise.value_or(0)));
    }
    row.bound_a = bound_of(left.variant->split), row.bound_b = bound_of(right.variant->split);
    const Verdict *verdict_a = verdict_of(*left.c, left.variant->name),
                  *verdict_b = verdict_of(*right.c, right.variant->name);
    if (verdict_a) row.speed_a = verdict_a->speed;
    if (verdict_b) row.speed_b = verdict_b->speed;
    row.gain = gain_of(verdict_a, verdict_b);
    out_.rows.push_back(std::move(row));
    if (across_.empty() && !left.variant->notes.empty() && !right.variant->notes.empty())
      out_.noted.push_back(noted(left, right, sides));
  }

  Comparison take() { return std::move(out_); }

 private:
  void add_look(const Row& left, const Row& right, const Sides& sides) {
    const std::string reason = across_.empty() ? unlike_looks(left, right, sides) : kSurveyAcross;
    if (!reason.empty()) return refuse(right, reason);
    out_.noted.push_back(noted(left, right, sides));
  }

  std::string across_;
  std::set<std::string> without_;
  Comparison out_;
};

}  // namespace

Interval independent_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  const double each = std::sqrt(0.95);
  const Interval x = median_interval(a, each), y = median_interval(b, each);
  if (!(x.low > 0) || !(y.low > 0)) throw std::invalid_argument("independent_ratio: a value is not positive");
  return {y.low / x.high, y.high / x.low, y.middle / x.middle, x.coverage * y.coverage};
}

std::string bound_of(const std::optional<Split>& split) {
  if (!split) return "";
  const double step = step_seconds(*split);
  const auto seconds = [&](const SplitPart& part) { return (*split).*part.seconds; };
  const SplitPart& largest = *std::ranges::max_element(kSplitParts, {}, seconds);
  return step > 0 ? std::string(largest.name) + " " + human_percent(seconds(largest) / step) : "";
}

Comparison compare_results(const std::vector<Result>& a, const std::vector<Result>& b, const std::string& across) {
  Join join(across);
  const std::vector<Row> rows_a = rows_of(a), rows_b = rows_of(b);
  std::map<std::string, std::vector<const Row*>> by_identity_a, by_identity_b;
  for (const Row& row : rows_a) by_identity_a[join.identity(row)].push_back(&row);
  for (const Row& row : rows_b) by_identity_b[join.identity(row)].push_back(&row);
  for (const Row& right : rows_b) {
    const std::string identity = join.identity(right);
    const auto found = by_identity_a.find(identity);
    if (found == by_identity_a.end()) {
      join.refuse(right, "only in B: " + why_unlike(right, rows_a));
    } else if (found->second.size() == 1 && by_identity_b[identity].size() == 1) {
      join.add(*found->second.front(), right, {});
    } else if (by_identity_b[identity].front() == &right) {
      join.refuse(right, "occurs more than once on one side; name single files");
    }
  }
  for (const Row& left : rows_a) {
    if (!by_identity_b.contains(join.identity(left))) join.refuse(left, "only in A: " + why_unlike(left, rows_b));
  }
  return join.take();
}

Comparison compare_within(const std::vector<Result>& results, const std::string& across) {
  Join join(across);
  const std::vector<Row> rows = rows_of(results);
  std::vector<std::vector<const Row*>> groups;
  std::map<std::string, size_t> places;
  for (const Row& row : rows) {
    const auto [place, is_new] = places.insert({row.result->machine.id + " | " + join.identity(row), groups.size()});
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&row);
  }
  const auto value = [&](const Row* row) { return part_of(*row, across); };
  for (std::vector<const Row*>& group : groups) {
    if (group.front()->c->kind == "survey") {
      join.refuse(*group.front(), kSurveyAcross);
      continue;
    }
    // What is equal stays as it was: rows lie in one list.
    if (across == "ranks") std::ranges::sort(group, {}, [](const Row* row) { return std::pair(row->c->ranks, row); });
    if (across == "threads")
      std::ranges::sort(group, {}, [](const Row* row) { return std::pair(row->c->threads, row); });
    std::set<std::string> values;
    for (const Row* row : group) values.insert(value(row));
    if (values.size() < group.size()) {
      join.refuse(*group.front(), "occurs more than once with equal " + across + "; name single files");
      continue;
    }
    const auto side = [&](const Row* row) { return "with " + across + " " + value(row); };
    const auto first = std::ranges::find_if(group, [](const Row* row) { return unusable(*row, "").empty(); });
    for (auto row = group.begin(); row != first; ++row) join.refuse(**row, unusable(**row, side(*row)));
    if (first == group.end()) continue;
    if (first + 1 == group.end())
      join.refuse(**first, across + " is " + value(*first) + " only; there is nothing to compare across");
    for (auto row = first + 1; row != group.end(); ++row) join.add(**first, **row, {side(*first), side(*row)});
  }
  return join.take();
}

}  // namespace tenfold
