#include "common/pages/rows/comparison_rows.h"

#include "common/base/text.h"
#include "common/pages/rows/row_parts.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

/// A baseline has no verdict, but its peak may be predicted all the same.
Verdict verdict_on_peak(const VariantResult& baseline) {
  Verdict verdict;
  if (const auto error = peak_error(baseline)) verdict.prediction_error["peak"] = *error;
  return verdict;
}

std::vector<Heading> headings_of(const CaseResult& c) {
  std::vector<Heading> headings;
  const bool dry = c.device == "dry", timed = !dry || rounds_of(c) > 0;
  const std::string how = dry ? ", modelled" : "";
  if (c.budget) headings.push_back({Column::budget_value, c.budget->setting});
  if (timed) {
    headings.push_back({Column::rate, rate_heading(c) + how});
    headings.push_back({Column::speed, "speed" + how});
  }
  headings.insert(headings.end(), {{Column::predicted_speed, "predicted speed"},
                                   {Column::peak, "peak"},
                                   {Column::memory, "memory"},
                                   {Column::predicted_peak, "predicted peak"},
                                   {Column::agreement, "agreement"},
                                   {Column::expected, "expected"}});
  return headings;
}

}  // namespace

CaseRows comparison_rows(const CaseResult& c) {
  CaseRows out{.c = &c, .ratio = "Items per second against the baseline", .headings = headings_of(c)};
  if (c.budget) {
    out.about = "each variant at the largest " + c.budget->setting + " that " +
                human_bytes(static_cast<double>(c.budget->bytes)) + " allow";
  }
  for (const VariantResult& variant : c.variants) {
    VariantRow row{.name = variant.name + (variant.source == "modelled" ? " (modelled)" : ""),
                   .variant = &variant,
                   .verdict = verdict_of(c, variant.name),
                   .facts = facts_of(c, variant)};
    row.cells[Column::rate] = rate_cell(variant);
    row.cells[Column::peak] = peak_cell(variant);
    if (c.budget && variant.budget_value) row.cells[Column::budget_value] = {to_string(*variant.budget_value)};
    if (const Verdict* const verdict = row.verdict) {
      row.cells[Column::speed] = {speed_text(verdict->speed), speed_tone(verdict->speed.label)};
      row.cells[Column::predicted_speed] = {prediction_text(variant, *verdict)};
      row.cells[Column::memory] = memory_cell(verdict->memory);
      row.cells[Column::predicted_peak] = {predicted_peak_text(variant, *verdict)};
      row.cells[Column::agreement] = {agreement_text(*verdict)};
      row.cells[Column::expected] = expectation_cell(variant, *verdict);
    } else {
      row.cells[c.device == "dry" && rounds_of(c) == 0 ? Column::memory : Column::speed] = baseline_cell(variant);
      if (variant.predicted.peak_bytes)
        row.cells[Column::predicted_peak] = {predicted_peak_text(variant, verdict_on_peak(variant))};
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace tenfold
