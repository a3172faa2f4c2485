#include "common/result/score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "common/result/judge.h"
#include "common/result/result_rows.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

/// What has a speed or a peak, each with all that must be alike.
std::vector<std::pair<std::string, ResultRow>> scored_rows(const std::vector<Result>& results) {
  static const std::set<std::string> kMayDiffer = {"device", "backend"};
  std::vector<std::pair<std::string, ResultRow>> rows;
  for (const ResultRow& row : rows_of(results)) {
    if (row.c->kind != "survey")
      rows.emplace_back(row_identity(*row.result, *row.c, row.variant->name, kMayDiffer), row);
  }
  return rows;
}

SpeedResult speed_of(const ResultRow& row) {
  const Verdict* const verdict = verdict_of(*row.c, row.variant->name);
  return verdict == nullptr ? SpeedResult{} : verdict->speed;
}

bool has_interval(const SpeedResult& speed) { return speed.ratio && speed.low && speed.high && *speed.ratio > 0; }

std::string sign_of(const SpeedResult& speed) {
  return speed.label == "FASTER" || speed.label == "SLOWER" ? speed.label : "neither";
}

std::optional<double> median_of(std::vector<double> values) {
  return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}

}  // namespace

std::optional<bool> ScoredRow::inside() const {
  if (!has_interval(said) || !has_interval(measured)) return std::nullopt;
  return *said.low <= *measured.high && *measured.low <= *said.high;
}

std::optional<double> ScoredRow::miss() const {
  if (!has_interval(said) || !has_interval(measured)) return std::nullopt;
  return std::exp(std::abs(std::log(*said.ratio / *measured.ratio))) - 1;
}

std::optional<double> ScoredRow::peak_error() const {
  if (!counted_bytes || !bytes || *bytes <= 0) return std::nullopt;
  return static_cast<double>(*counted_bytes) / static_cast<double>(*bytes) - 1;
}

std::vector<const ScoredRow*> Score::speeds() const {
  std::vector<const ScoredRow*> with_both;
  for (const ScoredRow& row : rows) {
    if (row.miss()) with_both.push_back(&row);
  }
  return with_both;
}

size_t Score::inside() const {
  return static_cast<size_t>(std::ranges::count_if(rows, [](const ScoredRow& row) { return row.inside() == true; }));
}

size_t Score::same_sign() const {
  return static_cast<size_t>(std::ranges::count_if(
      speeds(), [](const ScoredRow* row) { return sign_of(row->said) == sign_of(row->measured); }));
}

std::optional<double> Score::median_miss() const {
  std::vector<double> misses;
  for (const ScoredRow* const row : speeds()) misses.push_back(*row->miss());
  return median_of(std::move(misses));
}

std::optional<double> Score::median_peak_error() const {
  std::vector<double> errors;
  for (const ScoredRow& row : rows) {
    if (const auto error = row.peak_error()) errors.push_back(std::abs(*error));
  }
  return median_of(std::move(errors));
}

Score score(const std::vector<Result>& dry, const std::vector<Result>& measured) {
  Score all;
  const auto said = scored_rows(dry), came = scored_rows(measured);
  const std::map<std::string, ResultRow> said_by_identity(said.begin(), said.end()),
      came_by_identity(came.begin(), came.end());
  for (const auto& [identity, row] : said) {
    const auto other = came_by_identity.find(identity);
    if (other == came_by_identity.end()) {
      all.refused.push_back({row.name(), "was not measured with the same version, size and settings"});
      continue;
    }
    if (row.variant->status != "ok" || other->second.variant->status != "ok") {
      const bool ours = row.variant->status != "ok";
      const VariantResult& variant = ours ? *row.variant : *other->second.variant;
      all.refused.push_back({row.name(), variant.status + (ours ? " on the dry GPU" : " on the card") +
                                             (variant.reason.empty() ? "" : ": " + variant.reason)});
      continue;
    }
    all.rows.push_back({.lesson = row.result->lesson,
                        .case_name = row.c->name,
                        .variant = row.variant->name,
                        .said = speed_of(row),
                        .measured = speed_of(other->second),
                        .counted_bytes = row.variant->peak(),
                        .bytes = other->second.variant->peak()});
  }
  for (const auto& [identity, row] : came) {
    if (!said_by_identity.contains(identity)) all.refused.push_back({row.name(), "nothing was said of it"});
  }
  return all;
}

}  // namespace tenfold
