#include "common/pages/book/inline_values.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "common/base/number_in.h"
#include "common/base/text.h"
#include "common/pages/book/dry_tables.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

constexpr const char* kOpen = "<!-- value ";
constexpr const char* kClose = " -->";
constexpr const char* kEnd = "<!-- / -->";
constexpr const char* kNote = "note ";

[[noreturn]] void refuse(const std::string& spec, const std::string& what) {
  throw std::invalid_argument("value " + spec + ": " + what);
}

/// "on H100 | memory < 0.5" in its parts.
struct Wanted {
  std::string card, lesson, case_name, variant, what, relation, bound;
};

Wanted parsed(const std::string& spec, const std::filesystem::path& page) {
  std::vector<std::string> fields;
  std::istringstream text(spec);
  for (std::string field; std::getline(text, field, '|');) fields.push_back(trimmed(field));
  Wanted wanted;
  constexpr std::string_view kOn = "on ";
  if (!fields.empty() && fields.front().starts_with(kOn)) {
    wanted.card = trimmed(fields.front().substr(kOn.size()));
    fields.erase(fields.begin());
  }
  if (fields.size() == 4) {
    wanted.lesson = fields.front();
    fields.erase(fields.begin());
  } else if (page.parent_path().parent_path().filename() == "lessons") {
    wanted.lesson = page.parent_path().filename().string();
  }
  if (fields.size() != 3 || wanted.lesson.empty())
    refuse(spec, "expected [on CARD |] [LESSON |] CASE | TECHNIQUE | WHAT");
  wanted.case_name = fields[0], wanted.variant = fields[1];
  std::istringstream words(fields[2]);
  for (std::string word; words >> word;) {
    if (word == "<" || word == ">" || word == "is") {
      wanted.relation = word;
      std::getline(words, wanted.bound);
      wanted.bound = trimmed(wanted.bound);
      if (wanted.bound.empty()) refuse(spec, "nothing stands behind '" + word + "'");
    } else {
      wanted.what += (wanted.what.empty() ? "" : " ") + word;
    }
  }
  return wanted;
}

/// A number as text, and what conditions hold against it.
struct Value {
  std::string text;
  double number = 0;
  std::string label = "";
  bool of_host = false;  ///< a modelled ratio in which the host has a say
};

Value of_ratio(const std::optional<double>& ratio, const std::string& label, const std::string& spec) {
  if (!ratio) refuse(spec, "the published result has no such number");
  return {human_ratio(*ratio), *ratio, label};
}

Value value_of(const CaseResult& c, const Wanted& wanted, const std::string& spec) {
  const VariantResult* variant = variant_of(c, wanted.variant);
  if (!variant) refuse(spec, "the published case has no variant of this name");
  const Verdict* verdict = verdict_of(c, wanted.variant);
  if (wanted.what == "rate") {
    const double rate = items_per_second(*variant);
    return {human_number(rate), rate};
  }
  if (wanted.what == "peak") {
    const auto peak = variant->peak();
    if (!peak) refuse(spec, "the published result has no such number");
    return {human_bytes(static_cast<double>(*peak)), static_cast<double>(*peak)};
  }
  if (const auto part = std::ranges::find(kSplitParts, wanted.what, &SplitPart::name); part != kSplitParts.end()) {
    if (!variant->split) refuse(spec, "the published result has no such number");
    const double step = step_seconds(*variant->split);
    if (!(step > 0)) refuse(spec, "the published step took no time");
    const double share = (*variant->split).*part->seconds / step;
    return {human_percent(share), share};
  }
  if (wanted.what.starts_with(kNote)) {
    const auto note = variant->notes.find(wanted.what.substr(std::string(kNote).size()));
    if (note == variant->notes.end()) refuse(spec, "nothing of this name was noted");
    return {note_text(note->second), note->second.value};
  }
  if (wanted.what == "deviation") {
    if (!verdict || !verdict->agreement || !verdict->agreement->worst)
      refuse(spec, "the published result has no such number");
    char text[32];
    const double worst = *verdict->agreement->worst;
    std::snprintf(text, sizeof text, worst < 0.001 ? "%.1e" : "%.2g", worst);
    return {text, *verdict->agreement->worst};
  }
  if (wanted.what == "quality") {
    const auto seeds = c.metric ? variant->quality.find(c.metric->name) : variant->quality.end();
    if (seeds == variant->quality.end()) refuse(spec, "the published result has no such number");
    const double middle = median(seeds->second);
    return {human_number(middle), middle,
            verdict && verdict->quality ? quality_label(*verdict->quality, c.metric->better) : ""};
  }
  if (wanted.what == "predicted speed") return of_ratio(variant->predicted.speed_ratio, "", spec);
  if (wanted.what != "speed" && wanted.what != "memory")
    refuse(spec,
           "'" + wanted.what +
               "' is none of speed, memory, peak, rate, quality, predicted speed, deviation, data, host, device, copy, "
               "communication, note NAME");
  if (!verdict) refuse(spec, "the baseline is compared with nothing");
  if (wanted.what == "memory") return of_ratio(verdict->memory.ratio, verdict->memory.label, spec);
  Value value = of_ratio(verdict->speed.ratio, verdict->speed.label, spec);
  value.of_host = !host_mark(*variant, c.variants.front()).empty();
  if (value.label == "AMBIGUOUS") {
    if (wanted.relation != "is")
      refuse(spec, "it is AMBIGUOUS now; say so, with 'is AMBIGUOUS', or leave the number out");
    if (verdict->speed.low && verdict->speed.high)
      value.text = human_ratio(*verdict->speed.ratio, *verdict->speed.low, *verdict->speed.high);
  }
  return value;
}

void require_condition(const Value& value, const Wanted& wanted, const std::string& spec) {
  if (wanted.relation.empty()) return;
  if (wanted.relation == "is") {
    constexpr std::string_view kOr = " or ";  // "SAME or AMBIGUOUS", "NOT WORSE"
    for (size_t begin = 0; begin <= wanted.bound.size();) {
      const size_t end = std::min(wanted.bound.find(kOr, begin), wanted.bound.size());
      const std::string label = wanted.bound.substr(begin, end - begin);
      if (label == value.label || (label == "NOT WORSE" && value.label == "BETTER")) return;
      begin = end + kOr.size();
    }
    refuse(spec, "it is " + value.label + " now; the sentence wants to be rewritten");
  }
  const auto bound = number_in<double>(wanted.bound);
  if (!bound) refuse(spec, "'" + wanted.bound + "' is no number");
  if (wanted.relation == "<" ? !(value.number < *bound) : !(value.number > *bound))
    refuse(spec, "it is " + value.text + " now; the sentence wants to be rewritten");
}

/// What a card that is not there has no clock for is said to be modelled; marked where a table marks it, since a
/// sentence is all that many read.
std::string said(const Value& value, const Wanted& wanted) {
  static const std::set<std::string> counted = {"memory", "peak", "quality", "deviation"};
  const bool is_counted = counted.contains(wanted.what) || wanted.what.starts_with(kNote);
  return wanted.card.empty() || is_counted ? value.text
                                           : value.text + (value.of_host ? " (modelled, host)" : " (modelled)");
}

std::string text_of(const std::string& spec, const std::filesystem::path& page, const std::vector<Result>& references,
                    const std::vector<Result>& dry) {
  const Wanted wanted = parsed(spec, page);
  if (!wanted.card.empty() &&
      std::ranges::none_of(dry, [&](const Result& result) { return dry_card(result) == wanted.card; }))
    refuse(spec, "no results of a dry GPU of this name are published");
  for (const Result& result : wanted.card.empty() ? references : dry) {
    if (!result.lesson.starts_with(wanted.lesson)) continue;
    if (!wanted.card.empty() && dry_card(result) != wanted.card) continue;
    for (const CaseResult& c : result.cases) {
      if (c.name != wanted.case_name) continue;
      const Value value = value_of(c, wanted, spec);
      require_condition(value, wanted, spec);
      return said(value, wanted);
    }
    refuse(spec, "the published result has no case of this name");
  }
  return "(not yet measured)";
}

}  // namespace

std::string fill_inline_values(const std::string& text, const std::filesystem::path& page,
                               const std::vector<Result>& references, const std::vector<Result>& dry,
                               std::vector<std::string>& wrong) {
  std::string out;
  size_t from = 0;
  for (size_t begin = text.find(kOpen); begin != std::string::npos; begin = text.find(kOpen, from)) {
    const size_t line = begin == 0 ? 0 : text.rfind('\n', begin - 1) + 1;  // npos + 1 is the beginning, too
    if (text.compare(line, 4, "    ") == 0) {                              // an example, shown as it is
      const size_t behind = begin + std::string(kOpen).size();
      out += text.substr(from, behind - from);
      from = behind;
      continue;
    }
    const size_t specified = begin + std::string(kOpen).size();
    const size_t close = text.find(kClose, specified), end = text.find(kEnd, specified);
    if (close == std::string::npos || end == std::string::npos || text.find('\n', begin) < end)
      throw std::invalid_argument(text.substr(begin, 60) + ": is not closed by " + kEnd + " in its line");
    const size_t behind = close + std::string(kClose).size();
    out += text.substr(from, behind - from);
    try {
      out += text_of(trimmed(text.substr(specified, close - specified)), page, references, dry) + kEnd;
    } catch (const std::invalid_argument& error) {
      wrong.push_back(page.string() + ": " + error.what());
    }
    from = end + std::string(kEnd).size();
  }
  return out + text.substr(from);
}

}  // namespace tenfold
