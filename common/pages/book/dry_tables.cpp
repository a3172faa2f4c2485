#include "common/pages/book/dry_tables.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <utility>

#include "common/base/text.h"
#include "common/pages/book/dry_cases.h"
#include "common/pages/book/measured.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/rows.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/compare_results.h"
#include "common/result/dry_counted.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

using Row = std::vector<std::string>;

constexpr const char* kNotCounted = "not counted";
constexpr const char* kNotPredicted = "not predicted";
constexpr const char* kNotCompared = "not compared";

const VariantResult* variant_on(const Result& card, const std::string& case_name, const std::string& name) {
  const CaseResult* const c = case_of(card, case_name);
  return c == nullptr ? nullptr : variant_of(*c, name);
}

/// A text and the cards of which it is true.
using ByText = std::vector<std::pair<std::string, Cards>>;

void add(ByText& texts, const std::string& text, const Result* card) {
  auto same = std::ranges::find(texts, text, &ByText::value_type::first);
  if (same == texts.end()) same = texts.insert(texts.end(), {text, {}});
  same->second.push_back(card);
}

bool has_peak(const VariantResult* variant) { return variant != nullptr && variant->peak().has_value(); }

/// The variant's peak on the card that the rows are of, with its ratio or the value of the budget's setting.
std::string card_cell(const CaseRows& rows, const std::string& name) {
  const auto row = std::ranges::find(rows.rows, name, [](const VariantRow& of) { return of.variant->name; });
  if (row == rows.rows.end()) return kNotCounted;
  const VariantResult& variant = *row->variant;
  if (variant.status == "skipped") return "skipped";
  if (variant.failure == "out_of_memory") return "out of memory";
  if (variant.failure == "error") return "failed";
  if (!has_peak(&variant)) return kNotCounted;
  const std::string &text = row->at(Column::peak).text, &value = row->at(Column::budget_value).text;
  if (!value.empty()) return text + ", " + rows.c->budget->setting + "=" + value;
  return row->verdict != nullptr && row->verdict->memory.ratio ? text + ", " + row->at(Column::memory).text : text;
}

std::string count_cell(const VariantResult& variant, const char* name, bool bytes) {
  const auto count = variant.counted.find(name);
  if (count == variant.counted.end()) return kNotCounted;
  return bytes ? human_bytes(count->second) : human_number(count->second);
}

/// "0.81x / AMBIGUOUS 1.1x [0.9, 1.3]", a card each; "-" where none was modelled.
std::string speeds_cell(const Cards& cards, const std::string& case_name, const std::string& name) {
  Row speeds;
  for (const Result* const card : cards) {
    const CaseResult* const c = case_of(*card, case_name);
    const Verdict* const verdict = c == nullptr ? nullptr : verdict_of(*c, name);
    const bool known = verdict != nullptr && verdict->speed.ratio && agreement_text(*verdict) != "-";
    speeds.push_back(known ? number_text(verdict->speed) + host_mark(*variant_of(*c, name), c->variants.front()) : "-");
  }
  const bool any = std::ranges::any_of(speeds, [](const std::string& speed) { return speed != "-"; });
  return any ? joined(speeds, " / ") : "-";
}

bool is_timed(const Cards& cards, const CaseResult& c) {
  return std::ranges::any_of(cards, [&](const Result* card) {
    const CaseResult* const same = case_of(*card, c.name);
    return same != nullptr && rounds_of(*same) > 0;
  });
}

/// "+13 % (T4)"; without the card where the error is the same on all.
std::string largest_error(const Cards& cards, const std::string& case_name, const std::string& name) {
  double largest = 0;
  ByText errors;
  for (const Result* const card : cards) {
    const VariantResult* const variant = variant_on(*card, case_name, name);
    const auto error = variant == nullptr ? std::nullopt : peak_error(*variant);
    if (!error) continue;
    add(errors, human_percent(*error, /*sign=*/true), card);
    if (std::abs(*error) > std::abs(largest)) largest = *error;
  }
  if (errors.empty()) return kNotPredicted;
  const std::string text = human_percent(largest, /*sign=*/true);
  const auto found = std::ranges::find(errors, text, &ByText::value_type::first);
  return found == errors.end() || errors.size() == 1 ? text : text + " (" + names_of(found->second) + ")";
}

/// A card may be unable to run a trap; the CPU, which computed the agreement, has caught it all the same.
bool is_caught(const VariantRow& row) {
  const auto& expected = row.variant->expected;
  const auto& agreement = row.verdict->agreement;
  return row.variant->status == "skipped" && expected && expected->kind == "trap" && agreement &&
         !agreement->is_open() && !agreement->pass;
}

std::string agreement_cell(const VariantRow& row) {
  if (row.verdict == nullptr) return row.at(Column::memory).text;
  if (is_caught(row)) return "trap caught";
  const std::string& text = row.at(row.variant->status == "invalid" ? Column::expected : Column::agreement).text;
  return text == "-" ? kNotCompared : text;
}

/// Columns of cards that ran the same settings and say the same in each row are one.
struct CardColumn {
  std::string ran;
  Row cells;
  Cards cards;
};

/// The settings that differ between the cards, and the budget: "heads=12, length=1024".
std::string own_settings(const CaseResult& c, const std::map<std::string, SettingValue>& common) {
  CaseResult own = c;
  std::erase_if(own.settings, [&](const auto& setting) {
    return common.contains(setting.first) || (c.budget && setting.first == c.budget->setting);
  });
  std::string text = settings_text(own);
  if (!c.budget) return text;
  return text + (text.empty() ? "" : ", ") + "each variant at the largest " + c.budget->setting + " that " +
         human_bytes(static_cast<double>(c.budget->bytes)) + " allow";
}

/// What each card ran of a case: "**gpt**: tokens=gpt2; T4 (gpu8): layers=6; H100, A100 (gpu80): layers=12."
std::string caption(const Cards& cards, const CaseResult& c) {
  CaseResult common = c;
  for (const Result* const card : cards) {
    const CaseResult* const same = case_of(*card, c.name);
    std::erase_if(common.settings, [&](const auto& setting) {
      if (c.budget && setting.first == c.budget->setting) return true;
      const auto found = same == nullptr ? c.settings.end() : same->settings.find(setting.first);
      return same != nullptr && (found == same->settings.end() || found->second != setting.second);
    });
  }
  ByText ran;
  for (const Result* const card : cards) {
    if (const CaseResult* const same = case_of(*card, c.name)) {
      const std::string own = own_settings(*same, common.settings);
      add(ran, " (" + same->size + ")" + (own.empty() ? "" : ": " + own), card);
    }
  }
  std::vector<std::string> parts = {settings_text(common)};
  if (parts[0].empty()) parts.clear();
  for (const auto& [text, of] : ran) parts.push_back(names_of(of) + text);
  return "**" + markdown_cell(c.name) + "**: " + markdown_cell(joined(parts, "; ")) + ".\n";
}

/// "\nSkipped: *+ ranks*, *all but ranks*: needs two ranks (T4)\n": each reason once, with the cards where not all say
/// it.
std::string without_numbers(const Cards& cards, const CaseResult& c) {
  ByText reasons;  // of a variant and status
  std::vector<std::pair<std::string, Row>> lines;
  for (const VariantResult& variant : c.variants) {
    reasons.clear();
    for (const Result* const card : cards) {
      const VariantResult* const on = variant_on(*card, c.name, variant.name);
      if (on == nullptr || (on->status != "skipped" && on->failure != "error")) continue;
      add(reasons, (on->failure == "error" ? "Failed|" : "Skipped|") + on->reason, card);
    }
    for (const auto& [reason, of] : reasons) {
      const std::string key = reason + (of.size() == cards.size() ? "" : " (" + names_of(of) + ")");
      auto same = std::ranges::find_if(lines, [&](const auto& line) { return line.first == key; });
      if (same == lines.end()) same = lines.insert(lines.end(), {key, {}});
      same->second.push_back("*" + markdown_cell(variant.name) + "*");
    }
  }
  std::string out;
  for (const auto& [key, variants] : lines) {
    const size_t bar = key.find('|');
    out += "\n" + key.substr(0, bar) + ": " + joined(variants) + ": " + markdown_cell(key.substr(bar + 1)) + "\n";
  }
  return out;
}

/// "\nReserved, at most: 1.75 GiB on T4; 3.81 GiB on H100.\n"
std::string reserved_text(const Cards& cards, const CaseResult& c) {
  ByText reserved;
  for (const Result* const card : cards) {
    const CaseResult* const same = case_of(*card, c.name);
    if (same == nullptr) continue;
    int64_t most = 0;
    for (const VariantResult& variant : same->variants) {
      if (const auto bytes = variant.peak_bytes.find("reserved"); bytes != variant.peak_bytes.end())
        most = std::max(most, bytes->second);
    }
    if (most > 0) add(reserved, human_bytes(static_cast<double>(most)), card);
  }
  std::vector<std::string> parts;
  for (const auto& [bytes, of] : reserved) parts.push_back(bytes + " on " + names_of(of));
  return parts.empty() ? "" : "\nReserved, at most: " + joined(parts, "; ") + ".\n";
}

/// "\n*(host)*: T4, A100 on AMD EPYC; H100 on Intel Xeon: ...\n" where such ratios of a table are of several hosts.
std::string hosts_text(const Cards& cards, const CaseResult& c) {
  ByText hosts;
  bool marked = false;
  for (const Result* const card : cards) {
    const CaseResult* const same = case_of(*card, c.name);
    if (same == nullptr || rounds_of(*same) == 0) continue;
    add(hosts, card->machine.cpu, card);
    for (const Verdict& verdict : same->verdicts)
      marked = marked || !host_mark(*variant_of(*same, verdict.technique), same->variants.front()).empty();
  }
  if (!marked || hosts.size() < 2) return "";
  std::vector<std::string> parts;
  for (const auto& [host, of] : hosts) parts.push_back(names_of(of) + " on " + markdown_cell(host));
  return "\n*(host)*: " + joined(parts, "; ") + ". Between two hosts such ratios differ by the host, too.\n";
}

/// Without numbers on any card, and not compared: it stands below the table alone.
bool has_no_row(const Cards& cards, const CaseResult& c, const VariantRow& row) {
  return agreement_cell(row) == kNotCompared && std::ranges::all_of(cards, [&](const Result* card) {
           const VariantResult* const on = variant_on(*card, c.name, row.variant->name);
           return on == nullptr || on->status == "skipped";
         });
}

bool is_predicted(const Cards& cards, const CaseResult& c) {
  return std::ranges::any_of(c.variants, [&](const VariantResult& variant) {
    return largest_error(cards, c.name, variant.name) != kNotPredicted;
  });
}

/// `of_case`: as the last card ran it.
std::string case_table(const Cards& cards, const CaseRows& of_case) {
  const CaseResult& c = *of_case.c;
  std::vector<CardColumn> columns;
  for (const Result* const card : cards) {
    const CaseResult* const same = case_of(*card, c.name);
    CardColumn column{.ran = same == nullptr ? "" : same->size + settings_text(*same), .cells = {}, .cards = {card}};
    const CaseRows rows = same == nullptr ? CaseRows{} : rows_of(*same);
    for (const VariantResult& variant : c.variants) column.cells.push_back(card_cell(rows, variant.name));
    const auto equal = std::ranges::find_if(
        columns, [&](const CardColumn& other) { return other.ran == column.ran && other.cells == column.cells; });
    if (equal == columns.end())
      columns.push_back(column);
    else
      equal->cards.push_back(card);
  }
  const std::string one = " (" + dry_card(*cards.back()) + ")";
  std::vector<Row> rows = {{"variant"}};
  for (const CardColumn& column : columns) rows[0].push_back(names_of(column.cards));
  const bool predicted = is_predicted(cards, c);
  if (predicted) rows[0].push_back("largest prediction error");
  const bool timed = is_timed(cards, c);
  if (timed) {
    rows[0].push_back("speed, modelled: " + names_of(cards, " / "));
    rows[0].push_back("most of the step" + one);
  }
  rows[0].insert(rows[0].end(),
                 {"launches" + one, "calls that may wait" + one, "copied to the card" + one, "agreement"});
  for (size_t i = 0; i < c.variants.size(); ++i) {
    const VariantResult& variant = c.variants[i];
    if (has_no_row(cards, c, of_case.rows[i])) continue;
    Row row = {variant.name};
    for (const CardColumn& column : columns) row.push_back(column.cells[i]);
    if (predicted) row.push_back(largest_error(cards, c.name, variant.name));
    if (timed) {
      row.push_back(of_case.rows[i].verdict == nullptr ? "baseline" : speeds_cell(cards, c.name, variant.name));
      row.push_back(variant.split ? bound_of(variant.split) : "-");
    }
    row.insert(row.end(), {count_cell(variant, kLaunches, false), count_cell(variant, kHostWaits, false),
                           count_cell(variant, kBytesToDevice, true), agreement_cell(of_case.rows[i])});
    rows.push_back(std::move(row));
  }
  return caption(cards, c) + "\n" + markdown_table_of_texts(rows) + (timed ? hosts_text(cards, c) : "") +
         reserved_text(cards, c) + without_numbers(cards, c);
}

/// The row that stands for the lesson: "1.27 GiB, SMALLER 0.777x on T4 (gpu8); 2.45 GiB, ... on H100, A100 (gpu80)".
std::string headline_text(const Cards& cards) {
  const auto headline = counted_headline(*cards.back());
  if (!headline) return "";
  ByText peaks;
  for (const Result* const card : cards) {
    const CaseResult* const c = case_of(*card, headline->case_name);
    if (c == nullptr || !has_peak(variant_of(*c, headline->technique))) continue;
    const std::string cell = card_cell(rows_of(*c), headline->technique);
    const std::string of_ranks = c->ranks > 1 ? ", " + std::to_string(c->ranks) + " ranks" : "";
    add(peaks, cell + " (" + c->size + of_ranks + ")", card);
  }
  std::vector<std::string> parts;
  for (const auto& [text, of] : peaks) {
    const size_t size = text.rfind(" (");
    parts.push_back(text.substr(0, size) + " on " + names_of(of) + text.substr(size));
  }
  if (parts.empty()) return "";
  return " *" + markdown_cell(headline->technique) + "* in *" + markdown_cell(headline->case_name) +
         "*: " + markdown_cell(joined(parts, "; ")) + ".";
}

/// "T4, A100: on AMD EPYC, 2026-11-29, commit 266e54208f, stale": where each card's numbers come from.
std::string made_text(const Cards& cards, const std::string& hash_now, const Cards& of_earlier_model) {
  ByText made;
  for (const Result* const card : cards) {
    add(made,
        ": on " + card->machine.cpu + ", " + card->started_at.substr(0, 10) + ", commit " + card->commit.substr(0, 10) +
            (card->code_hash == hash_now ? "" : ", *stale*") +
            (std::ranges::count(of_earlier_model, card) == 0 ? "" : ", *earlier model*"),
        card);
  }
  std::vector<std::string> parts;
  for (const auto& [text, of] : made) parts.push_back(names_of(of) + text);
  return joined(parts, "; ");
}

/// How to read the tables.
std::string legend(const Cards& cards, const std::string& docs, const std::string& hash_now,
                   const Cards& of_earlier_model) {
  const Result& last = *cards.back();
  const bool timed = has_times(last);
  const bool at_least = std::ranges::any_of(cards, [](const Result* card) { return has_peak_at_least(*card); });
  return "A peak is the most bytes that tensors requested of LibTorch's own allocator. *Reserved* is what the "
         "allocator took from the card for them, with blocks that it kept from before ([does it fit?](" +
         docs +
         "/dry_gpu.md#does-it-fit)). A prediction error above 0 means that more was counted than the lesson's formula "
         "says. Launches, [calls that may wait](" +
         docs + "/dry_gpu.md#calls-that-may-wait) and bytes copied to the card are those of one step on the " +
         dry_card(last) + ". The CPU computed the agreement, at size cpu." +
         (timed ? " Speed is [modelled](" + docs +
                      "/dry_gpu.md#time-modelled): the card's part follows from its ceilings, the host's is that of "
                      "the machine named below; no card has "
                      "confirmed it. *(host)*: of this step or its baseline a fifth or more is the host's, so that "
                      "another host has another ratio. *AMBIGUOUS*: the host's noise hides the ratio."
                : "") +
         (at_least ? " *At least*: cuDNN's workspaces are not known and not counted, so that the ratio on a card may "
                     "differ, too."
                   : "") +
         " " + made_text(cards, hash_now, of_earlier_model) + ".\n";
}

/// Whether nothing of the survey could run where `measured` was: then a card's table is all that there is.
bool runs_on_cards_alone(const Result* measured, const CaseResult& survey) {
  const CaseResult* const there = measured == nullptr ? nullptr : case_of(*measured, survey.name);
  return there != nullptr &&
         std::ranges::all_of(there->variants, [](const VariantResult& look) { return look.status == "skipped"; });
}

}  // namespace

std::string dry_markdown(const std::vector<Result>& dry, const std::string& lesson, const std::string& hash_now,
                         const std::string& docs, const Result* measured, const std::set<std::string>& earlier_models) {
  const Cards cards = by_card(dry, lesson);
  if (cards.empty()) return "";
  const Result& last = *cards.back();
  Cards changed = cards;
  std::erase_if(changed, [&](const Result* card) { return card->code_hash == hash_now; });
  const std::string stale = changed.empty()
                                ? ""
                                : " (*stale" + (changed.size() == cards.size() ? "" : " on " + names_of(changed)) +
                                      ": the lesson's code has changed since*)";
  Cards of_earlier_model = cards;
  std::erase_if(of_earlier_model,
                [&](const Result* card) { return !earlier_models.contains(card->commit) || !has_times(*card); });
  const std::string by_model =
      of_earlier_model.empty() ? "" : " (on " + names_of(of_earlier_model) + " by an *earlier model*)";
  std::string out =
      "**On [dry GPUs](" + docs + "/dry_gpu.md)**" + stale + ", cards that were not there: memory and agreement" +
      (has_times(last) ? ", speed modelled" + by_model + "." : ", no times.") + headline_text(cards) + "\n";
  std::string folded =
      "\n<details><summary>Every case on every card</summary>\n\n" + legend(cards, docs, hash_now, of_earlier_model);
  const std::vector<std::string> names = case_names(cards);
  for (const std::string& name : names) {
    Cards with = cards;
    std::erase_if(with, [&](const Result* card) { return case_of(*card, name) == nullptr; });
    const Result& newest = *with.back();
    const CaseResult& c = *case_of(newest, name);
    const CaseRows rows = rows_of(c);
    const std::string twin = rows.judged ? earlier_twin(with, names, name) : "";
    if (!twin.empty())
      folded += "\n**" + markdown_cell(name) + "**: on a card the same as *" + markdown_cell(twin) + "*.\n";
    else if (rows.judged)
      folded += "\n" + case_table(with, rows);
    else
      (runs_on_cards_alone(measured, c) ? out : folded) += "\nOn the " + dry_card(newest) + ": " + survey_markdown(c);
  }
  return out + folded + "\n</details>\n";
}

}  // namespace tenfold
