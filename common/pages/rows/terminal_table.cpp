#include "common/pages/rows/terminal_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/rows.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

constexpr size_t kWidth = 120;

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

std::string case_heading(const CaseResult& c, int64_t cores) {
  std::string heading = "Case " + c.name + ": " + case_text(c);
  if (c.noise) heading += ", noise " + human_percent(*c.noise);
  if (const std::string withheld = speed_withheld(c, cores); !withheld.empty()) heading += "; " + withheld;
  return wrap_text(heading, kWidth, 2) + "\n";
}

/// The columns that 120 columns of text have room for; what is predicted and a budget's values stand below the row.
struct Shown {
  Column column;
  char alignment;
};
constexpr std::array<Shown, 9> kShown = {{{Column::rate, 'r'},
                                          {Column::quality, 'l'},
                                          {Column::against_baseline, 'l'},
                                          {Column::time_to_quality, 'l'},
                                          {Column::peak, 'r'},
                                          {Column::speed, 'l'},
                                          {Column::memory, 'l'},
                                          {Column::agreement, 'l'},
                                          {Column::expected, 'l'}}};

/// "predicted: speed 0.918x, error -6.1 %; peak 10.2 MiB, error +0.1 %"; empty where nothing was predicted.
std::string prediction_remark(const CaseRows& rows, const VariantRow& row) {
  Row parts;
  for (const auto& [column, name] : {std::pair(Column::predicted_speed, "speed "), {Column::predicted_peak, "peak "}}) {
    const std::string& text = row.at(column).text;
    if (rows.has(column) && !text.empty() && text != "-") parts.push_back(name + text);
  }
  return parts.empty() ? "" : "predicted: " + joined(parts, "; ");
}

/// "batch=64, the largest in a budget of 24.0 MiB"; empty in a case without one.
std::string budget_remark(const CaseResult& c, const VariantRow& row) {
  const std::string& value = row.at(Column::budget_value).text;
  if (!c.budget || value.empty()) return "";
  return c.budget->setting + "=" + value + ", the largest in a budget of " +
         human_bytes(static_cast<double>(c.budget->bytes));
}

std::string judged_rows(const CaseRows& rows) {
  Rows table = {{"variant"}};
  std::vector<Column> columns;
  std::string alignment = "l";
  for (const auto& [column, side] : kShown) {
    const auto heading = std::ranges::find(rows.headings, column, &Heading::column);
    if (heading == rows.headings.end()) continue;
    columns.push_back(column);
    alignment += side;
    table[0].push_back(heading->text);
  }
  for (const VariantRow& row : rows.rows) {
    table.push_back({row.name});
    Row remarks = {prediction_remark(rows, row), budget_remark(*rows.c, row)};
    for (const Column column : columns) {
      table.back().push_back(row.at(column).text);
      remarks.push_back(row.at(column).detail);
    }
    remarks.push_back(reason_text(*row.variant));
    for (const std::string& remark : remarks) {
      if (!remark.empty()) table.push_back({remark});
    }
  }
  return format_columns(table, alignment, kWidth);
}

std::string survey_rows(const CaseRows& rows) {
  Rows table = {{"what was measured", "value"}};
  for (const VariantRow& row : rows.rows) {
    table.push_back({row.name + (row.variant->status == "ok" ? "" : ", " + row.variant->status), ""});
    for (const Heading& heading : rows.headings) {
      if (const std::string& text = row.at(heading.column).text; text != "-")
        table.push_back({"    " + heading.text, text});
    }
    for (const Fact& fact : row.facts) {
      if (fact.of == Fact::Of::quality || fact.of == Fact::Of::note) table.push_back({"    " + fact.name, fact.text});
    }
    if (!row.variant->reason.empty()) table.push_back({row.variant->reason});
  }
  return format_columns(table, "lr", kWidth);
}

std::string split_rows(const CaseResult& c) {
  Rows rows = {split_heading("where the time goes")};
  for (const VariantResult& variant : c.variants) {
    if (const auto reason = variant.environment.find("split"); reason != variant.environment.end()) {
      rows.push_back(Row(rows.front().size(), "-"));
      rows.back().front() = variant.name;
      rows.push_back({reason->second});
    }
    if (!variant.split) continue;
    rows.push_back(split_cells(*variant.split));
    rows.back().insert(rows.back().begin(), variant.name);
  }
  return rows.size() > 1 ? format_columns(rows, "lrrrrrr", kWidth) : "";
}

std::string fact_lines(const CaseRows& rows) {
  std::string out;
  for (const VariantRow& row : rows.rows) {
    Row texts;
    for (const Fact& fact : row.facts)
      texts.push_back(fact.name + (fact.of == Fact::Of::environment ? "=" : " ") + fact.text);
    if (!texts.empty())
      out += "  " + wrap_text(one_line(row.variant->name + ": " + joined(texts, "; ")), kWidth - 2, 6) + "\n";
  }
  return out;
}

std::string about_line(const CaseRows& rows) {
  // A budget stands below each row that has a value of its own.
  if (rows.about.empty() || rows.c->budget) return "";
  return "  " + wrap_text(one_line(rows.about), kWidth - 2, 4) + "\n";
}

}  // namespace

std::string format_table(const Result& result) {
  std::string out =
      result.lesson + " - " + result.title + (result.workload.empty() ? "" : " (" + result.workload + ")") + "\n";
  std::string about = machine_text(result.machine);
  if (result.machine.ram_bytes > 0) about += ", " + human_bytes(static_cast<double>(result.machine.ram_bytes));
  if (!result.machine.libtorch.empty()) about += "; LibTorch " + result.machine.libtorch;
  if (!result.commit.empty())
    about += "; commit " + result.commit.substr(0, 10) + (result.dirty ? " with changes" : "");
  out += wrap_text(one_line(about + "; " + result.started_at), kWidth) + "\n";
  if (is_dry(result.machine))
    out += std::string("A dry GPU: no such card is here. LibTorch's own allocator counted the memory; ") +
           (has_times(result) ? "speed is modelled: this host's\npart as it is here, the card's by its ceilings.\n"
                              : "nothing was timed.\n");
  if (has_peak_at_least(result))
    out += "At least: what cuDNN would take for its workspaces is not known and not counted.\n";
  for (const CaseResult& c : result.cases) {
    const CaseRows rows = rows_of(c);
    out += "\n" + case_heading(c, result.machine.cores) +
           (rows.judged ? about_line(rows) + judged_rows(rows) : survey_rows(rows));
    if (const std::string split = split_rows(c); !split.empty()) out += "\n" + split;
    if (const std::string facts = rows.judged ? fact_lines(rows) : ""; !facts.empty()) out += "\n" + facts;
  }
  return out;
}

std::string format_summary(const std::vector<Result>& results) {
  Rows table = {{"technique", "speed", "memory", "agreement", "predicted", "expected"}};
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      const CaseRows rows = rows_of(c);
      if (!rows.judged) continue;
      table.push_back({number_of_name(result.lesson) + " " + result.title + ": " + c.name +
                           (rows.has(Column::time_to_quality) ? " (time to an equal " + c.metric->name + ")" : ""),
                       ""});
      for (const VariantRow& row : rows.rows) {
        if (!row.verdict) continue;
        std::string predicted = row.at(Column::predicted_speed).text;
        if (const size_t word = predicted.find(", error"); word != std::string::npos) predicted.replace(word, 7, "");
        table.push_back({"   " + row.verdict->technique, row.speed().text, row.at(Column::memory).text,
                         row.agreement().text, predicted, row.at(Column::expected).text});
        if (!row.speed().detail.empty()) table.push_back({row.speed().detail});
      }
    }
  }
  return table.size() > 1 ? format_columns(table, "llllll", kWidth) : "";
}

}  // namespace tenfold
