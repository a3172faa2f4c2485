#include "common/pages/rows/terminal_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <utility>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/judge.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

constexpr size_t kWidth = 120;

std::string case_heading(const CaseResult& c, int64_t cores) {
  std::ostringstream out;
  out << "Case " << c.name << ": " << c.device << ", " << c.dtype << ", size " << c.size << ", " << c.threads
      << (c.threads == 1 ? " thread" : " threads");
  if (c.ranks > 1) out << ", " << c.ranks << " ranks" << (c.backend.empty() ? "" : " over " + c.backend);
  const std::string settings = settings_text(c);
  if (!settings.empty()) out << ", " << settings;
  out << "; " << c.preset << ", seed " << c.seed;
  if (const std::string rounds = rounds_text(c); !rounds.empty()) out << ", " << rounds;
  if (c.noise) out << ", noise " << human_percent(*c.noise);
  if (const std::string withheld = speed_withheld(c, cores); !withheld.empty()) out << "; " << withheld;
  return wrap_text(out.str(), kWidth, 2) + "\n";
}

/// "batch=64, the largest in a budget of 24.0 MiB"; empty in a case without one.
std::string budget_remark(const CaseResult& c, const VariantResult& variant) {
  if (!c.budget || !variant.budget_value) return "";
  return c.budget->setting + "=" + to_string(*variant.budget_value) + ", the largest in a budget of " +
         human_bytes(static_cast<double>(c.budget->bytes));
}

std::string prediction_remark(const VariantResult& variant, const Verdict& verdict) {
  std::string out;
  if (variant.predicted.speed_ratio) out = "speed " + prediction_text(variant, verdict);
  if (variant.predicted.peak_bytes)
    out += (out.empty() ? "" : "; ") + ("peak " + predicted_peak_text(variant, verdict));
  return out.empty() ? out : "predicted: " + out;
}

std::string verdict_rows(const CaseResult& c) {
  std::vector<std::vector<std::string>> rows = {
      {"variant", "items/s", "peak", "speed", "memory", "agreement", "expected"}};
  for (const VariantResult& variant : c.variants) {
    const Verdict* verdict = verdict_of(c, variant.name);
    const double rate = items_per_second(variant);
    const std::string name = variant.name + (variant.source == "modelled" ? " (modelled)" : "");
    const std::string speed = rate > 0 ? human_number(rate) : "-";
    if (!verdict) {
      rows.push_back({name, speed, peak_text(variant),
                      variant.status == "ok" ? "baseline" : "baseline, " + variant.status,
                      c.device == "dry" ? "baseline" : "", "", ""});
      if (variant.predicted.peak_bytes) {
        Verdict own;  // a baseline has no verdict, but its peak is predicted all the same
        if (const auto peak = variant.peak(); peak && *variant.predicted.peak_bytes > 0) {
          own.prediction_error["peak"] =
              static_cast<double>(*peak) / static_cast<double>(*variant.predicted.peak_bytes) - 1;
        }
        rows.push_back({prediction_remark(variant, own)});
      }
    } else {
      rows.push_back({name, speed, peak_text(variant), speed_text(verdict->speed), memory_text(verdict->memory),
                      agreement_text(*verdict), expectation_text(variant, *verdict)});
      if (const std::string remark = prediction_remark(variant, *verdict); !remark.empty()) rows.push_back({remark});
    }
    if (const std::string remark = budget_remark(c, variant); !remark.empty()) rows.push_back({remark});
    if (!variant.reason.empty()) rows.push_back({variant.status + ": " + variant.reason});
  }
  if (c.device == "dry") {  // nothing was timed
    for (auto& row : rows) {
      if (row.size() > 1) row.erase(row.begin() + 3), row.erase(row.begin() + 1);
    }
    return format_columns(rows, "lrlll", kWidth);
  }
  return format_columns(rows, "lrrllll", kWidth);
}

std::string training_rows(const CaseResult& c) {
  const bool peaks = has_peaks(c);
  std::vector<std::vector<std::string>> rows = {
      {"variant", c.metric->name, "against the baseline", "time to its quality", "peak", "memory", "expected"}};
  for (const VariantResult& variant : c.variants) {
    const Verdict* verdict = verdict_of(c, variant.name);
    const auto quality = variant.quality.find(c.metric->name);
    // The line above says how many seeds there were.
    const std::string text = quality == variant.quality.end() ? "-" : quality_text(quality->second);
    const std::string first = text.substr(0, text.find(" of "));
    if (verdict) {
      rows.push_back({variant.name, first, agreement_text(*verdict), time_to_quality_text(*verdict), peak_text(variant),
                      memory_text(verdict->memory), expectation_text(variant, *verdict)});
    } else {
      rows.push_back({variant.name, first, variant.status == "ok" ? "baseline" : "baseline, " + variant.status, "",
                      peak_text(variant), "", ""});
    }
    if (!peaks) rows.back().erase(rows.back().begin() + 4, rows.back().begin() + 6);
    if (!variant.reason.empty()) rows.push_back({variant.status + ": " + variant.reason});
  }
  if (!peaks) rows.front().erase(rows.front().begin() + 4, rows.front().begin() + 6);
  return "  " + wrap_text(one_line(metric_text(c)), kWidth - 2, 4) + "\n" +
         format_columns(rows, peaks ? "llllrll" : "lllll", kWidth);
}

std::string split_rows(const CaseResult& c) {
  std::vector<std::vector<std::string>> rows = {
      {"where the time goes", "step", "data", "host", "device", "copy", "communication"}};
  for (const VariantResult& variant : c.variants) {
    if (const auto reason = variant.environment.find("split"); reason != variant.environment.end()) {
      rows.push_back({variant.name, "-", "-", "-", "-", "-", "-"});
      rows.push_back({reason->second});
    }
    if (!variant.split) continue;
    rows.push_back(split_cells(*variant.split));
    rows.back().insert(rows.back().begin(), variant.name);
  }
  return rows.size() > 1 ? format_columns(rows, "lrrrrrr", kWidth) : "";
}

std::string quality_and_notes(const CaseResult& c, const VariantResult& variant) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  for (const auto& [name, values] : variant.quality) {
    if (!c.metric || name != c.metric->name) add(name + " " + quality_text(values));
  }
  if (variant.curves) {
    const std::string rate = training_rate_text(c, variant);
    add("trained in " + training_time_text(c, variant) + (rate.empty() ? "" : " at " + rate + " items/s"));
  }
  for (const std::string& text : request_texts(variant)) add(text);
  for (const auto& [name, note] : variant.notes) add(name + " " + note_text(name, note));
  for (const auto& [name, value] : variant.environment) {
    if (name == kPeakAtLeast) continue;  // the peak says so itself
    // What all variants share tells them apart in nothing; the file keeps it.
    const bool shared = std::all_of(c.variants.begin(), c.variants.end(), [&](const VariantResult& other) {
      const auto found = other.environment.find(name);
      return found != other.environment.end() && found->second == value;
    });
    if (!shared) add(name + "=" + value);
  }
  return out;
}

std::string note_lines(const CaseResult& c) {
  std::string out;
  for (const VariantResult& variant : c.variants) {
    const std::string text = quality_and_notes(c, variant);
    if (!text.empty()) out += "  " + wrap_text(one_line(variant.name + ": " + text), kWidth - 2, 6) + "\n";
  }
  return out;
}

std::string survey_rows(const CaseResult& c) {
  std::vector<std::vector<std::string>> rows = {{"what was measured", "value"}};
  for (const VariantResult& variant : c.variants) {
    rows.push_back({variant.name + (variant.status == "ok" ? "" : ", " + variant.status), ""});
    if (const double rate = items_per_second(variant); rate > 0) rows.push_back({"    items/s", human_number(rate)});
    if (const auto peak = variant.peak()) rows.push_back({"    peak", human_bytes(static_cast<double>(*peak))});
    for (const auto& [name, values] : variant.quality) rows.push_back({"    " + name, quality_text(values)});
    for (const auto& [name, note] : variant.notes) rows.push_back({"    " + name, note_text(name, note)});
    if (!variant.reason.empty()) rows.push_back({variant.reason});
  }
  return format_columns(rows, "lr", kWidth);
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
    out += "A dry GPU: no such card is here. LibTorch's own allocator counted the memory; nothing was timed.\n";
  if (has_peak_at_least(result))
    out += "At least: what cuDNN would take for its workspaces is not known and not counted.\n";
  for (const CaseResult& c : result.cases) {
    out += "\n" + case_heading(c, result.machine.cores) +
           (c.kind == "survey"     ? survey_rows(c)
            : c.kind == "training" ? training_rows(c)
                                   : verdict_rows(c));
    if (const std::string split = split_rows(c); !split.empty()) out += "\n" + split;
    if (const std::string notes = c.kind == "survey" ? "" : note_lines(c); !notes.empty()) out += "\n" + notes;
  }
  return out;
}

std::string format_summary(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = {{"technique", "speed", "memory", "agreement", "predicted", "expected"}};
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      if (c.kind == "survey") continue;
      rows.push_back({number_of_name(result.lesson) + " " + result.title + ": " + c.name +
                          (c.kind == "training" ? " (time to an equal " + c.metric->name + ")" : ""),
                      ""});
      for (const Verdict& verdict : c.verdicts) {
        const VariantResult* variant = variant_of(c, verdict.technique);
        if (!variant) continue;
        std::string predicted = prediction_text(*variant, verdict);
        if (const size_t word = predicted.find(", error"); word != std::string::npos) predicted.replace(word, 7, "");
        const bool training = verdict.quality.has_value();
        rows.push_back({"   " + verdict.technique, training ? time_to_quality_text(verdict) : speed_text(verdict.speed),
                        memory_text(verdict.memory), agreement_text(verdict), predicted,
                        expectation_text(*variant, verdict)});
      }
    }
  }
  return rows.size() > 1 ? format_columns(rows, "llllll", kWidth) : "";
}

}  // namespace tenfold
