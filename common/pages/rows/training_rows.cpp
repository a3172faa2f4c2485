#include "common/pages/rows/training_rows.h"

#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/row_parts.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

Tone quality_tone(const std::string& label) {
  if (label == "BETTER") return Tone::faster;
  if (label == "NOT WORSE") return Tone::same;
  if (label == "WORSE") return Tone::slower;
  return label == "INVALID" ? Tone::invalid : Tone::open;
}

/// The caption says how many seeds there were.
Cell quality_cell(const CaseResult& c, const VariantResult& variant) {
  const auto quality = variant.quality.find(c.metric->name);
  const std::string text = quality == variant.quality.end() ? "-" : quality_text(quality->second);
  return {text.substr(0, text.find(" of "))};
}

Cell against_cell(const CaseResult& c, const Verdict& verdict) {
  if (!verdict.quality) return {agreement_text(verdict)};
  return {.text = quality_verdict_text(*verdict.quality, c.metric->better),
          .tone = quality_tone(quality_label(*verdict.quality, c.metric->better))};
}

Cell time_cell(const Verdict& verdict) {
  const Tone tone = speed_tone(verdict.speed.label);
  const std::string reason = no_time_because(verdict);
  if (reason.empty()) return {time_to_quality_text(verdict), tone};
  return {.text = verdict.speed.label, .tone = tone, .detail = reason};
}

}  // namespace

CaseRows training_rows(const CaseResult& c) {
  CaseRows out{
      .c = &c, .about = metric_text(c), .ratio = "Time to the baseline's quality, the baseline's over the technique's"};
  out.headings = {{Column::quality, c.metric->name},
                  {Column::trained_in, "trained in"},
                  {Column::against_baseline, "against the baseline"},
                  {Column::time_to_quality, "time to its quality"}};
  if (has_peaks(c)) {
    out.headings.push_back({Column::peak, "peak"});
    out.headings.push_back({Column::memory, "memory"});
  }
  out.headings.push_back({Column::expected, "expected"});
  for (const VariantResult& variant : c.variants) {
    VariantRow row{.name = variant.name,
                   .variant = &variant,
                   .verdict = verdict_of(c, variant.name),
                   .facts = facts_of(c, variant)};
    row.cells[Column::quality] = quality_cell(c, variant);
    row.cells[Column::trained_in] = {training_time_text(c, variant), Tone::number};
    row.cells[Column::peak] = peak_cell(variant);
    if (const Verdict* const verdict = row.verdict) {
      row.cells[Column::against_baseline] = against_cell(c, *verdict);
      row.cells[Column::time_to_quality] = time_cell(*verdict);
      row.cells[Column::predicted_speed] = {prediction_text(variant, *verdict)};
      row.cells[Column::memory] = memory_cell(verdict->memory);
      row.cells[Column::expected] = expectation_cell(variant, *verdict);
    } else {
      row.cells[Column::against_baseline] = baseline_cell(variant);
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace tenfold
