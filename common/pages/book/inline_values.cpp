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
#include "common/pages/book/dry_cases.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

constexpr const char* kOpen = "<!-- value ";
constexpr const char* kOpenNone = "<!-- none ";
constexpr const char* kClose = " -->";
constexpr const char* kEnd = "<!-- / -->";
constexpr const char* kNote = "note ";
constexpr std::string_view kSpeedOver = "speed over ";

[[noreturn]] void refuse(const std::string& spec, const std::string& what) {
  throw std::invalid_argument(spec + ": " + what);
}

/// "on H100 | memory < 0.5" in its parts.
struct Wanted {
  std::string card, lesson, case_name, variant, what, relation, bound;
};

/// What stands between the bars, without what may stand before: the card, and on a page that is no lesson's, the
/// lesson. `fields` are left.
Wanted place_of(const std::string& spec, const std::string& text, size_t fields_left, const char* expected,
                const std::filesystem::path& page, std::vector<std::string>& fields) {
  std::istringstream parts(text);
  for (std::string field; std::getline(parts, field, '|');) fields.push_back(trimmed(field));
  Wanted wanted;
  constexpr std::string_view kOn = "on ";
  if (!fields.empty() && fields.front().starts_with(kOn)) {
    wanted.card = trimmed(fields.front().substr(kOn.size()));
    fields.erase(fields.begin());
  }
  if (fields.size() == fields_left + 1) {
    wanted.lesson = fields.front();
    fields.erase(fields.begin());
  } else if (page.parent_path().parent_path().filename() == "lessons") {
    wanted.lesson = page.parent_path().filename().string();
  }
  if (fields.size() != fields_left || wanted.lesson.empty()) refuse(spec, expected);
  return wanted;
}

Wanted parsed(const std::string& spec, const std::string& text, const std::filesystem::path& page) {
  std::vector<std::string> fields;
  Wanted wanted = place_of(spec, text, 3, "expected [on CARD |] [LESSON |] CASE | TECHNIQUE | WHAT", page, fields);
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

/// How much faster one technique is than another of its case: both ratios are to the baseline of the same rounds, and
/// both have to be decided.
Value of_quotient(const CaseResult& c, const Verdict* verdict, const std::string& other, const std::string& spec) {
  const Verdict* const over = verdict_of(c, other);
  bool of_host = false;
  for (const Verdict* const part : {verdict, over}) {
    if (!part || !part->speed.ratio) refuse(spec, "the published result has no such number");
    if (part->speed.label == "AMBIGUOUS" || part->speed.label == "UNDECIDED")
      refuse(spec, part->technique + " is " + part->speed.label + " now; leave the number out");
    const VariantResult* const variant = variant_of(c, part->technique);
    of_host = of_host || (variant && !host_mark(*variant, c.variants.front()).empty());
  }
  const double ratio = *verdict->speed.ratio / *over->speed.ratio;
  return {.text = human_ratio(ratio), .number = ratio, .of_host = of_host};
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
  if (wanted.what.starts_with(kSpeedOver)) return of_quotient(c, verdict, wanted.what.substr(kSpeedOver.size()), spec);
  if (wanted.what == "predicted speed") return of_ratio(variant->predicted.speed_ratio, "", spec);
  if (wanted.what != "speed" && wanted.what != "memory")
    refuse(spec,
           "'" + wanted.what +
               "' is none of speed, speed over TECHNIQUE, memory, peak, rate, quality, predicted speed, deviation, "
               "data, host, device, copy, communication, note NAME");
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
std::string said(const Value& value, const Wanted& wanted, bool is_dry) {
  static const std::set<std::string> counted = {"memory", "peak", "quality", "deviation"};
  const bool is_counted = counted.contains(wanted.what) || wanted.what.starts_with(kNote);
  return !is_dry || is_counted ? value.text : value.text + (value.of_host ? " (modelled, host)" : " (modelled)");
}

/// Of which machine a sentence speaks: the lesson's of results/REFERENCE, a dry card by its name, or a real one by its
/// folder in results.
std::vector<Result> results_for(const Wanted& wanted, const std::string& spec, const PublishedSets& sets) {
  if (wanted.card.empty()) return sets.references;
  std::vector<Result> of_card;
  for (const Result& result : sets.dry) {
    if (dry_card(result) == wanted.card) of_card.push_back(result);
  }
  for (const Result& result : sets.published) {
    if (result.machine.id == wanted.card) of_card.push_back(result);
  }
  if (of_card.empty()) refuse(spec, "no results of a GPU of this name are published");
  return of_card;
}

std::string text_of(const std::string& spec, const std::string& text, const std::filesystem::path& page,
                    const PublishedSets& sets) {
  const Wanted wanted = parsed(spec, text, page);
  for (const Result& result : results_for(wanted, spec, sets)) {
    if (!result.lesson.starts_with(wanted.lesson)) continue;
    for (const CaseResult& c : result.cases) {
      if (c.name != wanted.case_name) continue;
      const Value value = value_of(c, wanted, spec);
      require_condition(value, wanted, spec);
      return said(value, wanted, is_dry(result.machine));
    }
    refuse(spec, "the published result has no case of this name");
  }
  return "(not yet measured)";
}

/// Refuses the sentence if a technique that is no mistake has this label, by name or, for "*", any.
void require_none(const std::string& spec, const std::string& text, const std::filesystem::path& page,
                  const PublishedSets& sets) {
  constexpr std::string_view kIn = " in ";
  const size_t in = text.find(kIn);
  static const std::set<std::string> labels = {"FASTER", "SLOWER", "SMALLER", "LARGER", "BETTER", "WORSE", "AMBIGUOUS"};
  const std::string label = text.substr(0, in);
  constexpr const char* kExpected = "expected LABEL in [on CARD |] [LESSON |] CASE | TECHNIQUE, * for any of both";
  if (in == std::string::npos || !labels.contains(label)) refuse(spec, kExpected);
  std::vector<std::string> fields;
  const Wanted wanted = place_of(spec, text.substr(in + kIn.size()), 2, kExpected, page, fields);
  const auto meant = [](const std::string& field, const std::string& name) { return field == "*" || field == name; };
  size_t looked_at = 0, of_lesson = 0;
  for (const Result& result : results_for(wanted, spec, sets)) {
    if (!result.lesson.starts_with(wanted.lesson)) continue;
    ++of_lesson;
    for (const CaseResult& c : result.cases) {
      if (!meant(fields[0], c.name)) continue;
      for (const Verdict& verdict : c.verdicts) {
        if (!meant(fields[1], verdict.technique)) continue;
        ++looked_at;
        const bool has_label =
            verdict.speed.label == label || verdict.memory.label == label ||
            (c.metric && verdict.quality && quality_label(*verdict.quality, c.metric->better) == label);
        if (has_label)
          refuse(spec, c.name + ", " + verdict.technique + " is " + label + " now; the sentence wants to be rewritten");
      }
    }
  }
  if (of_lesson > 0 && looked_at == 0) refuse(spec, "the published result has no such case and technique");
}

}  // namespace

std::string fill_inline_values(const std::string& text, const std::filesystem::path& page, const PublishedSets& sets,
                               std::vector<std::string>& wrong) {
  std::string out;
  size_t from = 0;
  const auto next = [&] { return std::min(text.find(kOpen, from), text.find(kOpenNone, from)); };
  for (size_t begin = next(); begin != std::string::npos; begin = next()) {
    const bool is_value = text.compare(begin, std::string_view(kOpen).size(), kOpen) == 0;
    const size_t specified = begin + std::string_view(is_value ? kOpen : kOpenNone).size();
    const size_t line = begin == 0 ? 0 : text.rfind('\n', begin - 1) + 1;  // npos + 1 is the beginning, too
    if (text.compare(line, 4, "    ") == 0) {                              // an example, shown as it is
      out += text.substr(from, specified - from);
      from = specified;
      continue;
    }
    const size_t close = text.find(kClose, specified), end = text.find(kEnd, specified);
    if (close == std::string::npos || end == std::string::npos || text.find('\n', begin) < end)
      throw std::invalid_argument(text.substr(begin, 60) + ": is not closed by " + kEnd + " in its line");
    const size_t behind = close + std::string_view(kClose).size();
    out += text.substr(from, behind - from);
    const std::string said_there = trimmed(text.substr(specified, close - specified));
    try {
      if (is_value) {
        out += text_of("value " + said_there, said_there, page, sets) + kEnd;
      } else {
        require_none("none " + said_there, said_there, page, sets);
        out += text.substr(behind, end - behind) + kEnd;
      }
    } catch (const std::invalid_argument& error) {
      wrong.push_back(page.string() + ": " + error.what());
    }
    from = end + std::string_view(kEnd).size();
  }
  return out + text.substr(from);
}

}  // namespace tenfold
