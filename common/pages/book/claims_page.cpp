#include "common/pages/book/claims_page.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/pages/book/claims_judge.h"
#include "common/pages/rows/markdown_table.h"

namespace tenfold {
namespace {

constexpr size_t kColumns = 80;

/// A sentence within a sentence: without its full stop.
std::string quoted(const std::string& sentence) {
  return "\"" + (sentence.ends_with(".") ? sentence.substr(0, sentence.size() - 1) : sentence) + "\"";
}

/// "memory: ratio <= 0.3, on a GPU".
std::string rule_text(const Claim& claim) {
  const std::string metric = claim.metric == "note" ? "counted" : claim.metric;
  return metric + ": " + claim.rule.text + (claim.gpu ? ", on a GPU" : "");
}

/// "10 hold, 7 do not hold, 11 not measured here".
std::string counted_text(const std::map<ClaimVerdict, size_t>& counts) {
  static const std::map<ClaimVerdict, std::string> plural = {
      {ClaimVerdict::holds, "hold"}, {ClaimVerdict::does_not_hold, "do not hold"}, {ClaimVerdict::depends, "depend"}};
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) {
    const bool many = count != 1 && plural.contains(verdict);
    parts.push_back(std::to_string(count) + " " + (many ? plural.at(verdict) : to_string(verdict)));
  }
  return joined(parts);
}

/// "33 claims on 2x-intel-xeon: 10 hold, ...", a line for each machine; of a GPU that is not there, the claims that it
/// decides.
std::vector<std::string> totals(const std::vector<Claim>& claims, const std::vector<Result>& results) {
  std::map<std::string, std::map<ClaimVerdict, size_t>> counts;
  for (const Claim& claim : claims) {
    for (const ClaimOutcome& outcome : judge_on_each(claim, results)) ++counts[outcome.machine][outcome.verdict];
  }
  std::vector<std::string> lines;
  for (const auto& [machine, verdicts] : counts) {
    size_t judged = 0;
    for (const auto& [verdict, count] : verdicts) judged += count;
    lines.push_back(std::to_string(judged) + (judged == 1 ? " claim on " : " claims on ") + machine + ": " +
                    counted_text(verdicts) + ".");
  }
  if (lines.empty()) lines.push_back("No result is published: nothing is judged.");
  return lines;
}

std::vector<std::string> elsewhere_cells(const Elsewhere& one) {
  return {markdown_cell(one.what), markdown_cell(one.hardware + "; " + one.model), markdown_cell(one.number),
          "[" + markdown_cell(one.source) + "](" + one.url + ")", one.date + "; read " + one.checked};
}

const std::vector<std::string> kElsewhereHead = {"what", "hardware; model", "number", "source", "date"};

/// A paragraph whose lines all begin under `indent`, the first one with `lead` in the margin.
std::string hanging(const std::string& lead, const std::string& text, size_t indent) {
  std::string out;
  for (const char c : wrap_text(text, kColumns - indent)) {
    out += c;
    if (c == '\n') out += std::string(indent, ' ');
  }
  return lead + std::string(indent - std::min(indent, display_width(lead)), ' ') + out + "\n";
}

/// " on 2x-amd-epyc, not decided here" of a verdict to which `machine` could say nothing.
std::string decided_elsewhere(const std::vector<ClaimOutcome>& outcomes, const std::string& machine) {
  const auto own = std::ranges::find(outcomes, machine, &ClaimOutcome::machine);
  if (own == outcomes.end() || own->verdict != ClaimVerdict::not_decided) return "";
  std::vector<std::string> decided;
  for (const ClaimOutcome& outcome : outcomes) {
    if (outcome.verdict != ClaimVerdict::not_decided && outcome.verdict != ClaimVerdict::not_measured)
      decided.push_back(markdown_cell(outcome.machine));
  }
  return decided.empty() ? "" : " on " + joined(decided) + ", not decided here";
}

}  // namespace

std::string claims_line(const Ledger& ledger, const std::string& lesson, const std::vector<Result>& published,
                        const std::string& ledger_page, const std::string& machine) {
  std::vector<std::string> parts;
  std::map<ClaimVerdict, size_t> counts;
  for (const Claim& claim : ledger.claims) {
    if (claim.lesson != lesson) continue;
    const std::vector<ClaimOutcome> outcomes = judge_on_each(claim, published);
    const ClaimVerdict verdict = overall(outcomes);
    ++counts[verdict];
    parts.push_back(quoted(markdown_cell(claim.text)) + " *" + to_string(verdict) + "*" +
                    decided_elsewhere(outcomes, machine) + " ([" + claim.source + "](" + ledger_page + "#" + claim.id +
                    "))");
  }
  if (parts.empty()) return "";
  constexpr size_t kInOneLine = 2;  // more would fill the first screen
  if (parts.size() <= kInOneLine) return "Claims tested here: " + joined(parts, "; ") + ".\n";
  return "<details><summary>Claims tested here: " + counted_text(counts) + "</summary>\n\n- " + joined(parts, "\n- ") +
         "\n\n</details>\n";
}

std::string elsewhere_table(const Ledger& ledger, const std::string& lesson) {
  std::vector<std::vector<std::string>> rows = {kElsewhereHead};
  for (const Elsewhere* const entry : elsewhere_of(ledger, lesson)) rows.push_back(elsewhere_cells(*entry));
  return rows.size() == 1 ? "" : "**Measured elsewhere, not by us:**\n\n" + markdown_table(rows);
}

std::string ledger_markdown(const Ledger& ledger, const std::vector<Result>& published) {
  std::string out = joined(totals(ledger.claims, published), "\n\n") + "\n";
  for (const ClaimSource& source : ledger.sources) {
    std::vector<std::vector<std::string>> rows = {{"claim", "lesson", "judged by", "verdict"}};
    for (const Claim& claim : ledger.claims) {
      if (claim.source != source.id) continue;
      std::string verdicts;
      for (const ClaimOutcome& outcome : judge_on_each(claim, published)) {
        verdicts += (verdicts.empty() ? "" : "<br>") + markdown_cell(outcome.machine) + ": **" +
                    to_string(outcome.verdict) + "**: " + markdown_cell(outcome.why);
      }
      rows.push_back({"<a id=\"" + claim.id + "\"></a>" + markdown_cell(claim.text),
                      "[" + number_of_name(claim.lesson) + "](../lessons/" + claim.lesson + "/README.md)",
                      markdown_cell(rule_text(claim)), verdicts.empty() ? "not measured on any machine" : verdicts});
    }
    if (rows.size() > 1)
      out += "\n### " + source.id + ": " + markdown_cell(source.title) + "\n\n" + markdown_table(rows);
  }
  std::vector<std::vector<std::string>> rows = {kElsewhereHead};
  rows[0].insert(rows[0].begin(), "lesson");
  for (const Elsewhere& one : ledger.elsewhere) {
    rows.push_back(elsewhere_cells(one));
    rows.back().insert(rows.back().begin(),
                       "[" + number_of_name(one.lesson) + "](../lessons/" + one.lesson + "/README.md)");
  }
  return out + "\n### Measured elsewhere, not by us\n\n" + markdown_table(rows);
}

std::string ledger_text(const Ledger& ledger, const std::vector<Result>& results, const std::string& lesson,
                        const std::string& machine) {
  std::vector<Result> chosen;
  for (const Result& result : results) {
    if (machine.empty() || result.machine.id == machine) chosen.push_back(result);
  }
  std::string out;
  std::vector<Claim> claims;
  for (const ClaimSource& source : ledger.sources) {
    bool first = true;
    for (const Claim& claim : ledger.claims) {
      if (claim.source != source.id || (!lesson.empty() && claim.lesson != lesson)) continue;
      if (first) out += (out.empty() ? "" : "\n") + hanging(source.id, source.title, source.id.size() + 2);
      first = false;
      claims.push_back(claim);
      out += hanging("  " + number_of_name(claim.lesson), claim.text, 6);
      for (const ClaimOutcome& outcome : judge_on_each(claim, chosen))
        out += hanging("", outcome.machine + ": " + to_string(outcome.verdict) + ": " + outcome.why, 8);
    }
  }
  if (claims.empty()) out += "No claim is tested in " + lesson + ".\n";
  bool first = true;
  for (const Elsewhere& one : ledger.elsewhere) {
    if (!lesson.empty() && one.lesson != lesson) continue;
    if (first) out += "\nMeasured elsewhere, not by us\n";
    first = false;
    out += hanging("  " + number_of_name(one.lesson),
                   one.what + ": " + one.number + " (" + one.hardware + "; " + one.model + "; " + one.source + ", " +
                       one.date + ")",
                   6);
  }
  if (claims.empty()) return out;
  out += "\n";
  for (const std::string& line : totals(claims, chosen)) out += hanging("", line, 0);
  return out;
}

}  // namespace tenfold
