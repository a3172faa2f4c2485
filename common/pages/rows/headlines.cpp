#include "common/pages/rows/headlines.h"

#include <utility>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/prediction_errors.h"

namespace tenfold {
namespace {

/// What came of a technique: of a training its quality first.
std::string outcome(const VariantRow& row, const std::string& separator) {
  const std::string& memory = row.at(Column::memory).text;
  const std::string quality =
      row.verdict->quality ? "quality " + row.agreement().text + separator + "time to it " : "speed ";
  return quality + with_detail(row.speed()) + (memory == "-" ? "" : separator + "memory " + memory);
}

}  // namespace

std::optional<VerdictRow> headline_of(const Result& result, std::optional<bool> gpu) {
  std::optional<VerdictRow> first;
  for (VerdictRow& row : verdict_rows({&result, 1})) {
    if (gpu && is_on_gpu(*row.c) != *gpu) continue;
    const auto& headline = result.headline;
    if (headline && headline->case_name == row.c->name && headline->technique == row.row.verdict->technique) return row;
    const VariantResult& variant = *row.row.variant;
    const bool meant = !variant.expected || variant.expected->kind == "technique";
    if (meant && variant.status != "skipped" && !first) first = std::move(row);
  }
  return first;
}

std::string format_headlines(const std::vector<Result>& results, size_t width) {
  std::string out, surprises, surveys;
  for (const Result& result : results) {
    const std::string title = number_of_name(result.lesson) + " " + result.title;
    if (result.is_survey()) surveys += (surveys.empty() ? "" : ", ") + title;
    if (const auto headline = headline_of(result)) {
      out += wrap_text(one_line(title + ": " + headline->row.verdict->technique + " (" + headline->c->name + ")"),
                       width, 4) +
             "\n";
      out += "    " + wrap_text(one_line(outcome(headline->row, "; ")), width - 4, 4) + "\n";
    }
  }
  for (const VerdictRow& row : verdict_rows(results)) {
    const Cell& expected = row.row.at(Column::expected);
    if (expected.tone != Tone::surprise) continue;
    surprises += "  " +
                 wrap_text(one_line(number_of_name(row.result->lesson) + " " + row.row.verdict->technique + " (" +
                                    row.c->name + "): " + expected.text + "; " + outcome(row.row, ", ")),
                           width - 2, 6) +
                 "\n";
  }
  if (!surveys.empty()) out += wrap_text(one_line("Counted, nothing timed: " + surveys), width, 4) + "\n";
  if (out.empty()) return "";
  out += surprises.empty() ? "\nNo surprise: nothing was decided against what the lessons state.\n"
                           : "\nAgainst what was stated before:\n" + surprises;
  std::string predictions;
  for (const PredictionErrors& errors : prediction_errors(results))
    predictions += "  " + wrap_text(one_line(errors.of + ": " + prediction_errors_text(errors)), width - 2, 6) + "\n";
  return out + (predictions.empty() ? "" : "\nPredictions against what was measured:\n" + predictions);
}

}  // namespace tenfold
