#include "common/pages/book/measured.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/row_parts.h"
#include "common/pages/rows/rows.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

/// Cells as Markdown, without columns in which no row but the first, the heading, says anything.
std::string table_of(const Rows& rows) {
  Rows kept(rows.size());
  for (size_t column = 0; column < rows.front().size(); ++column) {
    const bool filled = std::any_of(rows.begin() + 1, rows.end(),
                                    [&](const Row& row) { return !row[column].empty() && row[column] != "-"; });
    if (!filled && column > 0) continue;
    for (size_t i = 0; i < rows.size(); ++i) kept[i].push_back(rows[i][column]);
  }
  return markdown_table_of_texts(kept);
}

/// The case's name, what it trained or looked at, and how it was measured.
std::string caption(const CaseResult& c, const std::string& more = "") {
  const std::string own = c.budget ? c.budget->setting : "";  // each variant has its own
  Row parts = {markdown_cell(settings_text(c, own)), c.ranks > 1 ? std::to_string(c.ranks) + " ranks" : "",
               rounds_text(c), c.noise ? "noise " + human_percent(*c.noise) : "", markdown_cell(more)};
  std::erase(parts, "");
  return "**" + markdown_cell(c.name) + (parts.empty() ? "**" : "**: ") + joined(parts, "; ") + ".\n\n";
}

bool is_skipped(const VariantResult& variant) { return variant.status == "skipped"; }

/// Variants that could not run here, together where the reason is the same.
std::string skipped_lines(const CaseResult& c) {
  std::map<std::string, std::string> skipped;
  for (const VariantResult& variant : c.variants) {
    if (!is_skipped(variant)) continue;
    std::string& names = skipped[variant.reason];
    names += (names.empty() ? "*" : "; *") + markdown_cell(variant.name) + "*";
  }
  std::string out;
  for (const auto& [reason, names] : skipped) out += "\nNot run here: " + names + ": " + markdown_cell(reason) + ".\n";
  return out;
}

/// What a step asked of collectives, folded: a row for the variants that asked the same.
std::string collectives(const CaseRows& rows) {
  std::set<std::string> names;
  for (const VariantRow& row : rows.rows) {
    for (const auto& [collective, bytes] : row.variant->sent_bytes) names.insert(collective);
  }
  if (names.empty()) return "";
  Rows table = {{"variant"}};
  table[0].insert(table[0].end(), names.begin(), names.end());
  table[0].push_back("predicted of all");
  for (const VariantRow& row : rows.rows) {
    if (row.variant->sent_bytes.empty()) continue;
    Row cells = {row.variant->name};
    for (const std::string& collective : names) cells.push_back(sent_text(*row.variant, collective));
    cells.push_back(predicted_sent_text(*row.variant));
    const auto same = std::ranges::find_if(
        table, [&](const Row& other) { return std::equal(cells.begin() + 1, cells.end(), other.begin() + 1); });
    if (same == table.end())
      table.push_back(std::move(cells));
    else
      same->front() += "; " + row.variant->name;
  }
  return "\n<details><summary>What a step asks of collectives: bytes, calls, predicted</summary>\n\n" +
         table_of(table) + "\n</details>\n";
}

/// What variants noted, together where several noted just this.
std::string noted_line(const CaseRows& rows) {
  Rows noted;  // what was noted, then the variants that noted just this
  for (const VariantRow& row : rows.rows) {
    Row notes;
    for (const Fact::Of of : {Fact::Of::note, Fact::Of::request}) {
      for (const Fact& fact : row.facts) {
        const bool in_table = of == Fact::Of::request && !row.variant->sent_bytes.empty();  // collectives() has it
        if (fact.of == of && !in_table) notes.push_back(markdown_cell(fact.name + " " + fact.text));
      }
    }
    if (notes.empty()) continue;
    const std::string text = joined(notes);
    auto same = std::ranges::find(noted, text, [](const Row& line) { return line.front(); });
    if (same == noted.end()) same = noted.insert(noted.end(), {text});
    same->push_back("*" + markdown_cell(row.variant->name) + "*");
  }
  Row texts;
  for (const Row& line : noted) texts.push_back(joined({line.begin() + 1, line.end()}) + ": " + line.front());
  return texts.empty() ? "" : "\nNoted: " + joined(texts, ". ") + ".\n";
}

/// What the agreement check allows, together where that is the same.
std::string allowed(const CaseResult& c) {
  std::map<std::string, Row> by_rule;
  for (const Verdict& verdict : c.verdicts) {
    if (verdict.agreement) by_rule[verdict.agreement->rule].push_back("*" + markdown_cell(verdict.technique) + "*");
  }
  Row parts;
  for (const auto& [rule, techniques] : by_rule)
    parts.push_back((by_rule.size() == 1 ? "" : joined(techniques) + ": ") + markdown_cell(rule));
  return parts.empty() ? "" : "\nAgreement asked for: " + joined(parts, "; ") + ".\n";
}

/// Where a step's time goes, folded.
std::string split(const CaseResult& c) {
  Rows rows = {split_heading("variant")};
  for (const VariantResult& variant : c.variants) {
    if (!variant.split || is_skipped(variant)) continue;
    rows.push_back(split_cells(*variant.split));
    rows.back().insert(rows.back().begin(), variant.name);
  }
  if (rows.size() == 1) return "";
  return "\n<details><summary>Where the time goes (a few steps of a separate pass: read the shares)</summary>\n\n" +
         table_of(rows) + "\n</details>\n";
}

/// A case of which nothing ran here: what its baseline lacks says why.
std::string not_run(const CaseResult& c) {
  return caption(c) + "Not run here: " + markdown_cell(c.variants.front().reason) + ".\n";
}

/// Rows of what was judged against a baseline, in all columns that say something.
std::string judged(const CaseRows& rows) {
  const CaseResult& c = *rows.c;
  if (std::ranges::all_of(c.variants, is_skipped)) return not_run(c);
  Rows table = {{"variant"}};
  for (const Heading& heading : rows.headings) table[0].push_back(heading.text);
  for (const VariantRow& row : rows.rows) {
    if (is_skipped(*row.variant)) continue;
    table.push_back({row.name});
    for (const Heading& heading : rows.headings) {
      const bool caught =
          heading.column == Column::speed && must_fail(*row.variant) && row.variant->status == "invalid";
      // At the largest batch that a budget allows, peaks say nothing.
      const bool budgeted = heading.column == Column::memory && c.budget;
      table.back().push_back(caught ? "not timed" : budgeted ? "" : with_detail(row.at(heading.column)));
    }
  }
  return caption(c, rows.about) + table_of(table) + skipped_lines(c) + noted_line(rows) + collectives(rows) +
         allowed(c) + split(c);
}

/// The unit that all looks note of this thing; none where they differ, or where a number is scaled together with its
/// unit.
std::string common_unit(const CaseResult& c, const std::string& thing) {
  std::set<std::string> units;
  for (const VariantResult& variant : c.variants) {
    for (const auto& [name, note] : variant.notes) {
      if (without_line(name) == thing) units.insert(note.unit);
    }
  }
  const std::set<std::string> scaled = {"bytes", "B", "s", "seconds"};
  return units.size() == 1 && !scaled.contains(*units.begin()) ? *units.begin() : "";
}

/// What the looks of a survey noted, in the order that it was met.
struct Noted {
  Row looks, things;
  std::map<std::pair<std::string, std::string>, std::string> values;  ///< by look and thing

  explicit Noted(const CaseResult& c) {
    for (const VariantResult& variant : c.variants) {
      if (is_skipped(variant)) continue;
      looks.push_back(variant.name);
      for (const auto& [name, of_seeds] : variant.quality) add(name, quality_text(of_seeds));
      std::map<std::string, Note> worst;
      for (const auto& [name, note] : variant.notes) {
        const auto [place, is_new] = worst.try_emplace(without_line(name), note);
        if (!is_new && note.value > place->second.value) place->second = note;
      }
      for (const auto& [name, note] : worst) {
        const std::string unit = common_unit(c, name);
        const bool told = unit.empty() || has_word(name, unit);
        add(told ? name : name + ", " + unit, unit.empty() ? note_text(note) : human_number(note.value));
      }
    }
  }
  std::string value(const std::string& look, const std::string& thing) const {
    const auto found = values.find({look, thing});
    return found == values.end() ? "" : found->second;
  }
  /// Noted by half of the looks, and by two at least.
  bool shared(const std::string& thing) const {
    const auto count = static_cast<size_t>(
        std::count_if(looks.begin(), looks.end(), [&](const auto& look) { return !value(look, thing).empty(); }));
    return count > 1 && 2 * count >= looks.size();
  }
  /// Noted by all of several looks, and always the same: it tells none from another.
  bool constant(const std::string& thing) const {
    return looks.size() > 2 && std::all_of(looks.begin(), looks.end(), [&](const std::string& look) {
             return !value(look, thing).empty() && value(look, thing) == value(looks.front(), thing);
           });
  }

 private:
  void add(const std::string& thing, const std::string& value) {
    if (std::find(things.begin(), things.end(), thing) == things.end()) things.push_back(thing);
    values[{looks.back(), thing}] = value;
  }
};

/// A row for each look, or across where two or three of them noted more than that.
std::string side_by_side(const Noted& noted, const Row& things) {
  Row looks = noted.looks;
  std::erase_if(looks, [&](const std::string& look) {  // one_by_one() has all of it
    return std::ranges::all_of(things, [&](const std::string& thing) { return noted.value(look, thing).empty(); });
  });
  const bool across = looks.size() <= 3 && looks.size() <= things.size();
  const Row &columns = across ? looks : things, &down = across ? things : looks;
  Rows rows = {{""}};
  rows.back().insert(rows.back().end(), columns.begin(), columns.end());
  for (const std::string& name : down) {
    rows.push_back({name});
    for (const std::string& column : columns)
      rows.back().push_back(across ? noted.value(column, name) : noted.value(name, column));
  }
  return table_of(rows);
}

/// What one look noted of several things, as "rung 1, requests" of rungs: a row for each, or nothing where these are
/// numbers of several looks, or not the same for each thing.
std::string by_thing(const Noted& noted, const Row& names) {
  constexpr size_t kMostColumns = 6;
  Row looks, things, columns;
  std::map<std::pair<std::string, std::string>, std::string> values;
  const auto add = [](Row& to, const std::string& name) {
    if (std::ranges::find(to, name) == to.end()) to.push_back(name);
  };
  for (const std::string& name : names) {
    const size_t comma = name.find(", ");
    for (const std::string& look : noted.looks) {
      const std::string value = noted.value(look, name);
      if (value.empty()) continue;
      if (comma == std::string::npos) return "";
      const std::string thing = name.substr(0, comma), column = name.substr(comma + 2);
      add(looks, look), add(things, thing), add(columns, column);
      values[{thing, column}] = value;
    }
  }
  if (looks.size() != 1 || things.size() < 2 || columns.size() < 2 || columns.size() > kMostColumns) return "";
  if (values.size() != things.size() * columns.size()) return "";
  Rows rows = {{looks.front()}};
  rows.back().insert(rows.back().end(), columns.begin(), columns.end());
  for (const std::string& thing : things) {
    rows.push_back({thing});
    for (const std::string& column : columns) rows.back().push_back(values.at({thing, column}));
  }
  return table_of(rows);
}

/// A row for each number.
std::string one_by_one(const Noted& noted, const Row& things) {
  constexpr size_t kMostOpen = 20;
  if (const std::string table = by_thing(noted, things); !table.empty()) return table;
  Rows rows = {{"of", "what", "value"}};
  for (const std::string& look : noted.looks) {
    for (const std::string& thing : things) {
      if (const std::string value = noted.value(look, thing); !value.empty()) rows.push_back({look, thing, value});
    }
  }
  std::string table = table_of(rows);
  if (rows.size() <= kMostOpen + 1) return table;
  return "<details><summary>" + std::to_string(rows.size() - 1) + " more numbers</summary>\n\n" + table +
         "\n</details>\n";
}

}  // namespace

std::string survey_markdown(const CaseResult& c) {
  constexpr size_t kMostColumns = 11;
  if (std::ranges::all_of(c.variants, is_skipped)) return not_run(c);
  const Noted noted(c);
  Row common, others, constant;
  for (const std::string& thing : noted.things) {
    if (noted.constant(thing)) {
      constant.push_back(markdown_cell(thing) + ": " + markdown_cell(noted.value(noted.looks.front(), thing)));
    } else {
      (noted.shared(thing) ? common : others).push_back(thing);
    }
  }
  if (std::min(noted.looks.size(), common.size()) > kMostColumns) {
    others = noted.things;
    common.clear();
  }
  std::string out = caption(c);
  if (!common.empty()) out += side_by_side(noted, common);
  if (!others.empty()) out += (common.empty() ? "" : "\n") + one_by_one(noted, others);
  if (!constant.empty() && common.empty() && others.empty()) {  // no table names the looks
    Row names;
    for (const std::string& look : noted.looks) names.push_back("*" + markdown_cell(look) + "*");
    out += "The same of " + joined(names) + ": " + joined(constant, "; ") + ".\n";
  } else if (!constant.empty()) {
    out += "\nThe same in every row: " + joined(constant, "; ") + ".\n";
  }
  return out + skipped_lines(c);
}

namespace {

constexpr const char* kHowToRead =
    " Speed is the median of paired ratios with its 95 % interval, not the quotient of the two rates. Noise: two "
    "identical baselines get an interval, too; how far its farther end is from 1.";

std::string heading(const Result& result, const std::string& hash_now, const std::string& docs) {
  const bool stale = result.code_hash != hash_now;
  const std::string preset =
      result.cases.empty() ? "" : ", preset " + result.cases.front().preset + ", size " + result.cases.front().size;
  return "**" + markdown_cell(result.machine.id) + "**" +
         (stale ? " (*stale: the lesson's code has changed since*)" : "") + ": " +
         markdown_cell(machine_text(result.machine)) + "; " + result.started_at.substr(0, 10) + ", commit " +
         (result.commit.empty() ? "unknown" : result.commit.substr(0, 10)) + (result.dirty ? " with changes" : "") +
         ", version " + std::to_string(result.lesson_version) + preset + "." + (result.is_survey() ? "" : kHowToRead) +
         " [The words](" + docs + "/glossary.md), [the method](" + docs + "/method.md).\n";
}

}  // namespace

std::string measured_markdown(const std::vector<Result>& published, const Result* reference, const std::string& lesson,
                              const std::string& hash_now, const std::string& docs, const std::string& timed_kernels) {
  std::string out;
  bool gpu = false;
  std::vector<std::string> elsewhere;
  for (const Result& result : published) {
    if (result.lesson != lesson) continue;
    if (reference && result.machine.id != reference->machine.id && std::ranges::none_of(result.cases, is_on_gpu)) {
      elsewhere.push_back(markdown_cell(result.machine.id));
      continue;
    }
    out += heading(result, hash_now, docs);
    for (const CaseRows& rows : rows_in_page_order(result)) {
      gpu = gpu || is_on_gpu(*rows.c);
      out += "\n" + (rows.judged ? judged(rows) : survey_markdown(*rows.c));
    }
    out += "\n";
  }
  if (out.empty()) return "Not yet measured on any machine.\n";
  if (!gpu) out += "On a GPU: not yet measured" + (timed_kernels.empty() ? "" : ", but for " + timed_kernels) + ".\n";
  if (!elsewhere.empty()) out += "\nMeasured on " + joined(elsewhere) + ", too: [results](" + docs + "/results.md).\n";
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace tenfold
