#include "common/pages/rows/row_parts.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/dry_counted.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

/// "482 launches, 2 calls that may wait, 30.9 MiB to the card, 30.9 MiB of both pageable"; empty of a card that is
/// there.
std::string asked_of_the_card(const VariantResult& variant) {
  const auto count = [&](const char* name) { return dry_count(variant, name); };
  if (!variant.counted.contains(kLaunches)) return "";
  std::string text = human_number(count(kLaunches)) + " launches, ";
  if (count(kGraphLaunches) > 0) text += human_number(count(kGraphLaunches)) + " of graphs, ";
  text +=
      human_number(count(kHostWaits)) + " calls that may wait, " + human_bytes(count(kBytesToDevice)) + " to the card";
  if (count(kBytesToHost) > 0) text += ", " + human_bytes(count(kBytesToHost)) + " to the host";
  if (count(kBytesPageable) > 0) text += ", " + human_bytes(count(kBytesPageable)) + " of both pageable";
  return text;
}

}  // namespace

std::string sent_text(const VariantResult& variant, const std::string& collective) {
  const auto bytes = variant.sent_bytes.find(collective);
  if (bytes == variant.sent_bytes.end()) return "-";
  const auto calls = variant.counted.find("calls of " + collective);
  return human_bytes(static_cast<double>(bytes->second)) +
         (calls == variant.counted.end()
              ? ""
              : " in " + human_number(calls->second) + (calls->second == 1 ? " call" : " calls"));
}

std::string predicted_sent_text(const VariantResult& variant) {
  const auto error = sent_error(variant);
  return error ? human_bytes(static_cast<double>(*variant.predicted.sent_bytes)) + ", error " +
                     human_percent(*error, true)
               : "-";
}

std::vector<Fact> facts_of(const CaseResult& c, const VariantResult& variant) {
  std::vector<Fact> facts;
  for (const auto& [name, values] : variant.quality) {
    if (!c.metric || name != c.metric->name) facts.push_back({Fact::Of::quality, name, quality_text(values)});
  }
  if (variant.curves) {
    const std::string rate = training_rate_text(c, variant);
    facts.push_back({Fact::Of::training, "trained in",
                     training_time_text(c, variant) + (rate.empty() ? "" : " at " + rate + " items/s")});
  }
  for (const auto& [collective, bytes] : variant.sent_bytes)
    facts.push_back({Fact::Of::request, "asked of " + collective + " in a step", sent_text(variant, collective)});
  if (const std::string predicted = predicted_sent_text(variant); predicted != "-")
    facts.push_back({Fact::Of::request, "predicted of all collectives in a step", predicted});
  if (const std::string asked = asked_of_the_card(variant); !asked.empty())
    facts.push_back({Fact::Of::request, "asked of the card in a step", asked});
  for (const auto& [name, note] : variant.notes) facts.push_back({Fact::Of::note, name, note_text(name, note)});
  for (const auto& [name, value] : variant.environment) {
    if (name == kPeakAtLeast) continue;  // the peak says so itself
    // What all variants share tells them apart in nothing; the file keeps it.
    const bool shared = std::ranges::all_of(c.variants, [&](const VariantResult& other) {
      const auto same = other.environment.find(name);
      return same != other.environment.end() && same->second == value;
    });
    if (!shared) facts.push_back({Fact::Of::environment, name, value});
  }
  return facts;
}

std::string rate_heading(const CaseResult& c) { return c.items.value_or("items") + "/s"; }

Cell baseline_cell(const VariantResult& baseline) {
  return {.text = baseline.status == "ok" ? "baseline" : "baseline, " + baseline.status, .tone = Tone::faint};
}

Cell rate_cell(const VariantResult& variant) {
  const double rate = items_per_second(variant);
  return {.text = rate > 0 ? human_number(rate) : "-", .tone = Tone::number};
}

Cell peak_cell(const VariantResult& variant) { return {.text = peak_text(variant), .tone = Tone::number}; }

Cell memory_cell(const MemoryResult& memory) {
  return {.text = memory_text(memory),
          .tone = memory.label == "SMALLER"  ? Tone::smaller
                  : memory.label == "LARGER" ? Tone::larger
                                             : Tone::same};
}

Cell expectation_cell(const VariantResult& variant, const Verdict& verdict) {
  const std::string text = expectation_text(variant, verdict);
  return {.text = text, .tone = is_surprise(text) ? Tone::surprise : Tone::plain};
}

Tone speed_tone(const std::string& label) {
  if (label == "FASTER") return Tone::faster;
  if (label == "SLOWER") return Tone::slower;
  if (label == "SAME") return Tone::same;
  return label == "INVALID" ? Tone::invalid : Tone::open;
}

}  // namespace tenfold
