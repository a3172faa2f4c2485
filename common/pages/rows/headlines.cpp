#include "common/pages/rows/headlines.h"

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/prediction_errors.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

std::string speed_of(const Verdict& verdict) {
  return verdict.quality ? time_to_quality_text(verdict) : speed_text(verdict.speed);
}

}  // namespace

HeadlineVerdict headline_of(const Result& result, std::optional<bool> gpu) {
  HeadlineVerdict first;
  for (const CaseResult& c : result.cases) {
    if (c.kind == "survey" || (gpu && is_on_gpu(c) != *gpu)) continue;
    for (const Verdict& verdict : c.verdicts) {
      const VariantResult* variant = variant_of(c, verdict.technique);
      if (!variant) continue;
      if (result.headline && result.headline->case_name == c.name && result.headline->technique == verdict.technique)
        return {&c, variant, &verdict};
      const bool meant = !variant->expected || variant->expected->kind == "technique";
      if (meant && variant->status != "skipped" && !first.verdict) first = {&c, variant, &verdict};
    }
  }
  return first;
}

std::string format_headlines(const std::vector<Result>& results, size_t width) {
  std::string out, surprises, surveys;
  for (const Result& result : results) {
    const std::string title = number_of_name(result.lesson) + " " + result.title;
    if (result.is_survey()) surveys += (surveys.empty() ? "" : ", ") + title;
    if (const HeadlineVerdict headline = headline_of(result); headline.verdict) {
      const std::string memory = memory_text(headline.verdict->memory);
      out += wrap_text(one_line(title + ": " + headline.verdict->technique + " (" + headline.c->name + ")"), width, 4) +
             "\n";
      out += "    " +
             wrap_text(one_line("speed " + speed_of(*headline.verdict) + (memory == "-" ? "" : "; memory " + memory)),
                       width - 4, 4) +
             "\n";
    }
    for (const CaseResult& c : result.cases) {
      if (c.kind == "survey") continue;
      for (const Verdict& verdict : c.verdicts) {
        const VariantResult* variant = variant_of(c, verdict.technique);
        if (!variant) continue;
        const std::string expectation = expectation_text(*variant, verdict);
        if (!is_surprise(expectation)) continue;
        const std::string memory = memory_text(verdict.memory);
        surprises += "  " +
                     wrap_text(one_line(number_of_name(result.lesson) + " " + verdict.technique + " (" + c.name +
                                        "): " + expectation + "; speed " + speed_of(verdict) +
                                        (memory == "-" ? "" : ", memory " + memory)),
                               width - 2, 6) +
                     "\n";
      }
    }
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
