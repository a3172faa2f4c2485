#include "common/pages/rows/rows.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "common/pages/rows/comparison_rows.h"
#include "common/pages/rows/survey_rows.h"
#include "common/pages/rows/training_rows.h"

namespace tenfold {
namespace {

struct Maker {
  const char* kind;
  CaseRows (*make)(const CaseResult& c);
};

/// In the order of a page.
constexpr std::array<Maker, 3> kMakers = {
    {{"comparison", comparison_rows}, {"training", training_rows}, {"survey", survey_rows}}};

}  // namespace

std::string with_detail(const Cell& cell) { return cell.text + (cell.detail.empty() ? "" : ": " + cell.detail); }

const Cell& VariantRow::at(Column column) const {
  static const Cell kEmpty;
  const auto cell = cells.find(column);
  return cell == cells.end() ? kEmpty : cell->second;
}

const Cell& VariantRow::speed() const {
  return at(cells.contains(Column::time_to_quality) ? Column::time_to_quality : Column::speed);
}

const Cell& VariantRow::agreement() const {
  return at(cells.contains(Column::against_baseline) ? Column::against_baseline : Column::agreement);
}

bool CaseRows::has(Column column) const {
  return std::ranges::find(headings, column, &Heading::column) != headings.end();
}

CaseRows rows_of(const CaseResult& c) {
  const auto* const maker = std::ranges::find(kMakers, c.kind, &Maker::kind);
  if (maker == kMakers.end()) throw std::invalid_argument("case '" + c.name + "': unknown kind '" + c.kind + "'");
  return maker->make(c);
}

std::vector<CaseRows> rows_in_page_order(const Result& result) {
  std::vector<CaseRows> cases;
  for (const Maker& maker : kMakers) {
    for (const CaseResult& c : result.cases) {
      if (c.kind == maker.kind) cases.push_back(maker.make(c));
    }
  }
  return cases;
}

std::vector<VerdictRow> verdict_rows(std::span<const Result> results) {
  std::vector<VerdictRow> rows;
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      for (VariantRow& row : rows_of(c).rows) {
        if (row.verdict) rows.push_back({&result, &c, std::move(row)});
      }
    }
  }
  return rows;
}

std::string reason_text(const VariantResult& variant) {
  return variant.reason.empty() ? "" : variant.status + ": " + variant.reason;
}

}  // namespace tenfold
