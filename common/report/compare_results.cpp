#include <tenfold/compare_results.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>
#include <stdexcept>

#include <tenfold/humanize.h>
#include <tenfold/table.h>

namespace tenfold {
namespace {

struct Row {
  const Result* result;
  const CaseResult* c;
  const VariantResult* variant;
  bool baseline;

  std::string identity() const { return row_identity(*result, *c, variant->name); }
  std::string name() const { return result->lesson + ", " + c->name + ", " + variant->name; }
  auto parts() const { return identity_parts(*result, *c, variant->name); }
};

std::vector<Row> rows_of(const std::vector<Result>& results) {
  std::vector<Row> rows;
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      for (const VariantResult& variant : c.variants) rows.push_back({&result, &c, &variant, &variant == &c.variants.front()});
    }
  }
  return rows;
}

std::vector<double> rates(const VariantResult& variant) {
  std::vector<double> rates;
  for (const Round& round : variant.rounds) {
    if (round.seconds > 0 && round.items > 0) rates.push_back(round.rate());
  }
  return rates;
}

/// The technique's rate over the mean of its round's two baselines: what its verdict rests on.
std::vector<double> paired_gains(const Row& row) {
  const VariantResult& baseline = row.c->variants.front();
  const size_t count = row.variant->rounds.size();
  std::vector<double> gains;
  if (baseline.rounds.size() != count || baseline.rounds_b.size() != count) return gains;
  for (size_t i = 0; i < count; ++i) {
    const double mean = (baseline.rounds[i].rate() + baseline.rounds_b[i].rate()) / 2;
    if (std::isfinite(mean) && mean > 0) gains.push_back(row.variant->rounds[i].rate() / mean);
  }
  return gains;
}

std::string plain(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

/// Why a row has no partner: the parts in which the most similar row of the other side differs.
std::string why_unlike(const Row& row, const std::vector<Row>& others) {
  const auto mine = row.parts();
  std::string best;
  size_t fewest = mine.size() + 1;
  for (const Row& other : others) {
    if (other.result->lesson != row.result->lesson || other.variant->name != row.variant->name) continue;
    const auto theirs = other.parts();
    std::string differing;
    size_t count = 0;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].second == theirs[i].second) continue;
      ++count;
      differing += (differing.empty() ? "" : ", ") + mine[i].first + " is " + (mine[i].second.empty() ? "none" : mine[i].second) +
                   " here and " + (theirs[i].second.empty() ? "none" : theirs[i].second) + " there";
    }
    if (count < fewest) fewest = count, best = differing;
  }
  return best.empty() ? "the other side has no such lesson or variant" : best;
}

Speed label_of(const Interval& interval, double noise) {
  if (interval.coverage == 0) return Speed::undecided;
  const double clear = std::max(0.01, noise);
  if (interval.low > 1 + clear) return Speed::faster;
  if (interval.high < 1 / (1 + clear)) return Speed::slower;
  const double same = std::min(clear, 0.05);
  return interval.low >= 1 / (1 + same) && interval.high <= 1 + same ? Speed::same : Speed::ambiguous;
}

/// Nothing when a row can be compared, else the reason.
std::string unusable(const Row& row, const std::string& side) {
  if (row.variant->status != "ok")
    return "is " + row.variant->status + " in " + side + (row.variant->reason.empty() ? "" : " (" + row.variant->reason + ")");
  if (row.variant->source != "measured") return "is " + row.variant->source + ", not measured, in " + side;
  if (rates(*row.variant).empty()) return "was not timed in " + side;
  return "";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> identity_parts(const Result& result, const CaseResult& c, const std::string& variant) {
  std::string settings;
  for (const auto& [name, value] : c.settings) settings += (settings.empty() ? "" : " ") + name + "=" + plain(value);
  return {{"lesson", result.lesson},
          {"lesson version", std::to_string(result.lesson_version)},
          {"case", c.name},
          {"variant", variant},
          {"settings", settings},
          {"size", c.size},
          {"device", c.device},
          {"dtype", c.dtype},
          {"ranks", std::to_string(c.world_size)},
          {"backend", c.backend},
          {"threads", std::to_string(c.threads)}};
}

Interval independent_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  const double each = std::sqrt(0.95);
  const Interval x = median_interval(a, each), y = median_interval(b, each);
  if (!(x.low > 0) || !(y.low > 0)) throw std::invalid_argument("independent_ratio: a value is not positive");
  return {y.low / x.high, y.high / x.low, y.middle / x.middle, x.coverage * y.coverage};
}

std::string bound_of(const std::optional<Split>& split) {
  if (!split) return "";
  const std::array<std::pair<const char*, double>, 5> parts = {{{"data", split->data},
                                                                {"host", split->host},
                                                                {"device", split->device},
                                                                {"copy", split->copy},
                                                                {"communication", split->communication}}};
  double step = 0;
  for (const auto& [name, seconds] : parts) step += seconds;
  const auto largest = std::max_element(parts.begin(), parts.end(), [](const auto& p, const auto& q) { return p.second < q.second; });
  return step > 0 ? std::string(largest->first) + " " + human_percent(largest->second / step) : "";
}

Comparison compare_results(const std::vector<Result>& a, const std::vector<Result>& b) {
  Comparison out;
  const std::vector<Row> rows_a = rows_of(a), rows_b = rows_of(b);
  std::map<std::string, std::vector<const Row*>> by_identity_a, by_identity_b;
  for (const Row& row : rows_a) by_identity_a[row.identity()].push_back(&row);
  for (const Row& row : rows_b) by_identity_b[row.identity()].push_back(&row);

  const auto refuse = [&](const Row& row, const std::string& reason) { out.refused.push_back({row.name(), reason}); };
  for (const Row& right : rows_b) {
    const std::string identity = right.identity();
    const auto found = by_identity_a.find(identity);
    if (found == by_identity_a.end()) {
      refuse(right, "only in B: " + why_unlike(right, rows_a));
      continue;
    }
    if (found->second.size() > 1 || by_identity_b[identity].size() > 1) {
      if (by_identity_b[identity].front() == &right) refuse(right, "occurs more than once on one side; name single files");
      continue;
    }
    const Row& left = *found->second.front();
    const std::string reason_a = unusable(left, "A"), reason_b = unusable(right, "B");
    if (!reason_a.empty() || !reason_b.empty()) {
      refuse(right, reason_a.empty() ? reason_b : reason_a);
      continue;
    }
    ComparedRow row;
    row.identity = identity, row.lesson = right.result->lesson, row.case_name = right.c->name, row.variant = right.variant->name;
    row.baseline = right.baseline;
    row.throughput = independent_ratio(rates(*left.variant), rates(*right.variant));
    row.throughput_label = label_of(row.throughput, std::max(left.c->noise.value_or(0), right.c->noise.value_or(0)));
    row.bound_a = bound_of(left.variant->split), row.bound_b = bound_of(right.variant->split);
    if (const Verdict* v = verdict_of(*left.c, left.variant->name)) row.speed_a = v->speed;
    if (const Verdict* v = verdict_of(*right.c, right.variant->name)) row.speed_b = v->speed;
    const std::vector<double> gains_a = paired_gains(left), gains_b = paired_gains(right);
    if (!right.baseline && !gains_a.empty() && !gains_b.empty()) row.gain = independent_ratio(gains_a, gains_b);
    out.rows.push_back(std::move(row));
  }
  for (const Row& left : rows_a) {
    if (!by_identity_b.contains(left.identity())) refuse(left, "only in A: " + why_unlike(left, rows_b));
  }
  return out;
}

}  // namespace tenfold
