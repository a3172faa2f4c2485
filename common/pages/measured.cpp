// The part of a lesson's page that says what was measured.
#include <algorithm>
#include <map>

#include "common/base/text.h"
#include "common/pages/markdown.h"
#include "common/pages/table.h"

namespace tenfold {
namespace {

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

std::string join(const Row& parts, const std::string& between) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : between) + part;
  }
  return out;
}

/// Cells as Markdown, without columns in which no row but the first, the heading, says anything.
std::string table_of(const Rows& rows) {
  Rows kept(rows.size());
  for (size_t column = 0; column < rows.front().size(); ++column) {
    const bool said = std::any_of(rows.begin() + 1, rows.end(),
                                  [&](const Row& row) { return !row[column].empty() && row[column] != "-"; });
    if (!said && column > 0) continue;
    for (size_t i = 0; i < rows.size(); ++i) kept[i].push_back(markdown_cell(rows[i][column]));
  }
  return markdown_table(kept);
}

/// What a lesson's items are.
std::string rate_of(const CaseResult& c) {
  if (c.workload == "gpt") return "tokens/s";
  return c.workload == "convnet" || c.workload == "mlp" ? "images/s" : "items/s";
}

/// The case's name, what it trained or looked at, and how it was measured.
std::string caption(const CaseResult& c, const std::string& more = "") {
  const std::string ranks = c.ranks > 1 ? std::to_string(c.ranks) + " ranks" : "";
  const std::string noise = c.noise ? "noise " + human_percent(*c.noise) : "";
  return "**" + markdown_cell(c.name) +
         "**: " + join({markdown_cell(settings_text(c)), ranks, rounds_text(c), noise, markdown_cell(more)}, "; ") +
         ".\n\n";
}

/// Variants that could not run here, together where the reason is the same; and what the others noted.
std::string below(const CaseResult& c) {
  std::map<std::string, std::string> skipped;
  for (const VariantResult& variant : c.variants) {
    if (variant.status != "skipped") continue;
    std::string& names = skipped[variant.reason];
    names += (names.empty() ? "*" : "; *") + markdown_cell(variant.name) + "*";
  }
  std::string out;
  for (const auto& [reason, names] : skipped) out += "\nNot run here: " + names + ": " + markdown_cell(reason) + ".\n";
  if (c.kind == "survey") return out;
  std::string noted;
  for (const VariantResult& variant : c.variants) {
    Row notes;
    for (const auto& [name, note] : variant.notes) notes.push_back(markdown_cell(name + " " + note_text(note)));
    if (c.budget && variant.budget_value)
      notes.push_back(markdown_cell(c.budget->setting + "=" + to_string(*variant.budget_value)) +
                      " fits into the budget");
    if (!notes.empty())
      noted += (noted.empty() ? "" : ". ") + ("*" + markdown_cell(variant.name) + "*: " + join(notes, ", "));
  }
  return out + (noted.empty() ? "" : "\nNoted: " + noted + ".\n");
}

std::string comparison(const CaseResult& c) {
  Rows rows = {
      {"variant", rate_of(c), "speed", "predicted speed", "peak", "memory", "predicted peak", "agreement", "expected"}};
  for (const VariantResult& variant : c.variants) {
    if (variant.status == "skipped") continue;
    const double rate = items_per_second(variant);
    const std::string name = variant.name + (variant.source == "measured" ? "" : " (" + variant.source + ")");
    Row row = {name, rate > 0 ? human_number(rate) : "-"};
    if (const Verdict* verdict = verdict_of(c, variant.name)) {
      row.insert(row.end(), {speed_text(verdict->speed), prediction_text(variant, *verdict), peak_text(variant),
                             memory_text(verdict->memory), predicted_peak_text(variant, *verdict),
                             agreement_text(*verdict), expectation_text(variant, *verdict)});
    } else {
      row.insert(row.end(), {"baseline", "", peak_text(variant), "", "", "", ""});
    }
    rows.push_back(std::move(row));
  }
  const std::string budget = c.budget ? "each variant at the largest " + c.budget->setting + " that " +
                                            human_bytes(static_cast<double>(c.budget->bytes)) + " allow"
                                      : "";
  return caption(c, budget) + table_of(rows) + below(c);
}

/// Final qualities, and the time to an equal one.
std::string training(const CaseResult& c) {
  Rows rows = {{"variant", "quality", "trained in", "against the baseline", "time to its quality", "expected"}};
  for (const VariantResult& variant : c.variants) {
    if (variant.status == "skipped") continue;
    const auto quality = variant.quality.find(c.metric->name);
    Row row = {variant.name, quality == variant.quality.end() ? "-" : quality_text(quality->second),
               training_time_text(c, variant)};
    if (const Verdict* verdict = verdict_of(c, variant.name)) {
      row.insert(row.end(),
                 {agreement_text(*verdict), time_to_quality_text(*verdict), expectation_text(variant, *verdict)});
    } else {
      row.insert(row.end(), {"baseline", "", ""});
    }
    rows.push_back(std::move(row));
  }
  return caption(c, metric_text(c)) + table_of(rows) + below(c);
}

/// A number for each look and each thing that it noted: looks across where they are few, down where they are many.
/// Looks that have little in common get a row for each number.
std::string survey(const CaseResult& c) {
  constexpr size_t kMostColumns = 9;
  Row looks, things;
  std::map<std::pair<std::string, std::string>, std::string> values;
  for (const VariantResult& variant : c.variants) {
    if (variant.status == "skipped") continue;
    looks.push_back(variant.name);
    const auto add = [&](const std::string& thing, const std::string& value) {
      if (std::find(things.begin(), things.end(), thing) == things.end()) things.push_back(thing);
      values[{variant.name, thing}] = value;
    };
    for (const auto& [name, of_seeds] : variant.quality) add(name, quality_text(of_seeds));
    for (const auto& [name, note] : variant.notes) add(name, note_text(note));
  }
  Rows rows;
  const auto value_of = [&](const std::string& look, const std::string& thing) {
    const auto found = values.find({look, thing});
    return found == values.end() ? std::string() : found->second;
  };
  const bool alike = 2 * values.size() >= looks.size() * things.size();
  const size_t fewer = std::min(looks.size(), things.size());
  if (!alike || fewer > kMostColumns) {
    rows.push_back({"", "", ""});
    for (const auto& look : looks) {
      for (const auto& thing : things) {
        if (const std::string value = value_of(look, thing); !value.empty()) rows.push_back({look, thing, value});
      }
    }
  } else if (looks.size() <= things.size()) {
    rows.push_back({""});
    rows.back().insert(rows.back().end(), looks.begin(), looks.end());
    for (const auto& thing : things) {
      rows.push_back({thing});
      for (const auto& look : looks) rows.back().push_back(value_of(look, thing));
    }
  } else {
    rows.push_back({""});
    rows.back().insert(rows.back().end(), things.begin(), things.end());
    for (const auto& look : looks) {
      rows.push_back({look});
      for (const auto& thing : things) rows.back().push_back(value_of(look, thing));
    }
  }
  return caption(c) + (rows.size() > 1 ? table_of(rows) : "") + below(c);
}

std::string heading(const Result& result, const std::string& hash_now) {
  const bool stale = result.code_hash != hash_now;
  const std::string preset =
      result.cases.empty() ? "" : ", preset " + result.cases.front().preset + ", size " + result.cases.front().size;
  return "**" + markdown_cell(result.machine.id) + "**" +
         (stale ? " (*stale: the lesson's code has changed since*)" : "") + ": " +
         markdown_cell(machine_text(result.machine)) + "; " + result.started_at.substr(0, 10) + ", commit " +
         (result.commit.empty() ? "unknown" : result.commit.substr(0, 10)) + (result.dirty ? " with changes" : "") +
         ", version " + std::to_string(result.lesson_version) + preset + ".\n";
}

}  // namespace

bool is_on_gpu(const CaseResult& c) { return c.device.starts_with("cuda"); }

std::string measured_markdown(const std::vector<Result>& published, const std::string& lesson,
                              const std::string& hash_now) {
  const std::vector<std::pair<std::string, std::string (*)(const CaseResult&)>> parts = {
      {"comparison", comparison}, {"training", training}, {"survey", survey}};
  std::string out;
  bool gpu = false;
  for (const Result& result : published) {
    if (result.lesson != lesson) continue;
    out += heading(result, hash_now);
    for (const auto& [kind, text_of] : parts) {
      for (const CaseResult& c : result.cases) {
        gpu = gpu || is_on_gpu(c);
        if (c.kind == kind) out += "\n" + text_of(c);
      }
    }
    out += "\n";
  }
  if (out.empty()) return "Not yet measured on any machine.\n";
  if (!gpu) out += "On a GPU: not yet measured.\n";
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace tenfold
