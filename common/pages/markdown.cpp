#include "common/pages/markdown.h"

#include <algorithm>
#include <map>

#include "common/base/text.h"
#include "common/pages/bench_report.h"
#include "common/pages/table.h"
#include "common/result/code_hash.h"

namespace tenfold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

bool on_gpu(const CaseResult& c) { return c.device.starts_with("cuda"); }

std::string verdict_table(const Result& result) {
  Rows rows = {{"case", "variant", "items/s", "speed", "peak", "memory", "agreement", "predicted speed", "expected"}};
  for (const CaseResult& c : result.cases) {
    if (c.kind != "comparison") continue;
    for (const VariantResult& variant : c.variants) {
      const double rate = items_per_second(variant);
      const std::string name = variant.name + (variant.source == "measured" ? "" : " (" + variant.source + ")");
      const std::string speed = rate > 0 ? human_number(rate) : "-";
      std::vector<std::string> row;
      if (const Verdict* verdict = verdict_of(c, variant.name)) {
        const std::string reason = variant.status == "skipped" && !variant.reason.empty() ? ": " + variant.reason : "";
        row = {c.name,
               name,
               speed,
               speed_text(verdict->speed) + reason,
               peak_text(variant),
               memory_text(verdict->memory),
               agreement_text(*verdict),
               prediction_text(variant, *verdict),
               expectation_text(variant, *verdict)};
      } else {
        row = {c.name, name, speed, "baseline", peak_text(variant), "", "", "", ""};
      }
      for (std::string& cell : row) cell = markdown_cell(cell);
      rows.push_back(std::move(row));
    }
  }
  return rows.size() > 1 ? markdown_table(rows) : "";
}

/// Trainings: final qualities, and the time to an equal one.
std::string training_table(const Result& result) {
  Rows rows = {
      {"training", "variant", "quality", "trained in", "against the baseline", "time to its quality", "expected"}};
  std::string metrics;
  for (const CaseResult& c : result.cases) {
    if (c.kind != "training") continue;
    metrics += (metrics.empty() ? "Quality: " : "; ") + markdown_cell(c.name) + ": " + markdown_cell(metric_text(c));
    for (const VariantResult& variant : c.variants) {
      const Verdict* verdict = verdict_of(c, variant.name);
      const auto quality = variant.quality.find(c.metric->name);
      std::vector<std::string> row = {c.name, variant.name,
                                      quality == variant.quality.end() ? "-" : quality_text(quality->second),
                                      training_time_text(c, variant)};
      if (verdict) {
        const std::string reason = variant.status == "skipped" && !variant.reason.empty() ? ": " + variant.reason : "";
        row.insert(row.end(), {agreement_text(*verdict) + reason, time_to_quality_text(*verdict),
                               expectation_text(variant, *verdict)});
      } else {
        row.insert(row.end(), {"baseline", "", ""});
      }
      for (std::string& cell : row) cell = markdown_cell(cell);
      rows.push_back(std::move(row));
    }
  }
  return rows.size() > 1 ? markdown_table(rows) + "\n" + metrics + ".\n" : "";
}

/// How long each case was measured, and which clock decided.
std::string rounds_line(const Result& result) {
  std::string line;
  for (const CaseResult& c : result.cases) {
    const std::string rounds = rounds_text(c);
    if (!rounds.empty()) line += (line.empty() ? "Timed: " : "; ") + markdown_cell(c.name) + " " + rounds;
  }
  return line.empty() ? "" : line + ".\n";
}

/// What variants noted: a row each in the cases that train nothing, and beside a verdict one row for all.
std::string note_table(const Result& result) {
  Rows rows = {{"case", "variant", "what", "value"}};
  for (const CaseResult& c : result.cases) {
    for (const VariantResult& variant : c.variants) {
      if (c.kind != "survey") {
        std::string noted;
        for (const auto& [name, note] : variant.notes)
          noted += (noted.empty() ? "" : "; ") + name + " " + note_text(note);
        if (!noted.empty())
          rows.push_back({markdown_cell(c.name), markdown_cell(variant.name), "noted", markdown_cell(noted)});
        continue;
      }
      for (const auto& [name, values] : variant.quality)
        rows.push_back({markdown_cell(c.name), markdown_cell(variant.name), markdown_cell(name), quality_text(values)});
      for (const auto& [name, note] : variant.notes)
        rows.push_back(
            {markdown_cell(c.name), markdown_cell(variant.name), markdown_cell(name), markdown_cell(note_text(note))});
      if (variant.status == "skipped")
        rows.push_back({markdown_cell(c.name), markdown_cell(variant.name), "skipped", markdown_cell(variant.reason)});
    }
  }
  if (rows.size() == 1) return result.is_survey() ? "No notes were taken.\n" : "";
  return markdown_table(rows);
}

/// The first verdict of a lesson's newest result on this kind of device.
std::string first_verdict(const std::vector<Result>& published, const std::string& lesson, bool gpu) {
  const Result* newest = nullptr;
  const CaseResult* its_case = nullptr;
  for (const Result& result : published) {
    if (result.lesson != lesson || (newest && result.started_at <= newest->started_at)) continue;
    for (const CaseResult& c : result.cases) {
      if (on_gpu(c) == gpu && !c.verdicts.empty()) {
        newest = &result, its_case = &c;
        break;
      }
    }
  }
  if (!newest) return "not yet measured";
  const Verdict& verdict = its_case->verdicts.front();
  if (verdict.quality) return verdict.technique + ": " + quality_verdict_text(*verdict.quality);
  const std::string memory = verdict.memory.ratio ? ", " + memory_text(verdict.memory) : "";
  return verdict.technique + ": " + speed_text(verdict.speed) + memory;
}

}  // namespace

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '|' || c == '<' || c == '*' || c == '_' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

std::string markdown_table(const Rows& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    out += "|";
    for (const std::string& cell : rows[i]) out += " " + (cell.empty() ? "" : cell + " ") + "|";
    out += "\n";
    if (i > 0) continue;
    out += "|";
    for (size_t j = 0; j < rows[0].size(); ++j) out += "---|";
    out += "\n";
  }
  return out;
}

std::string measured_markdown(const std::vector<Result>& published, const std::string& lesson,
                              const std::string& hash_now) {
  std::string out;
  bool gpu = false;
  for (const Result& result : published) {
    if (result.lesson != lesson) continue;
    for (const CaseResult& c : result.cases) gpu = gpu || on_gpu(c);
    const bool stale = result.code_hash != hash_now;
    const std::string preset =
        result.cases.empty() ? "" : ", preset " + result.cases.front().preset + ", size " + result.cases.front().size;
    const std::string trainings = training_table(result), notes = note_table(result);
    std::string verdicts = verdict_table(result);
    verdicts += (verdicts.empty() || trainings.empty() ? "" : "\n") + trainings;
    out += "**" + markdown_cell(result.machine.id) + "**" +
           (stale ? " (*stale: the lesson's code has changed since*)" : "") + ": " +
           markdown_cell(machine_text(result.machine)) + "; " + result.started_at.substr(0, 10) + ", commit " +
           (result.commit.empty() ? "unknown" : result.commit.substr(0, 10)) + (result.dirty ? " with changes" : "") +
           ", version " + std::to_string(result.lesson_version) + preset + ".\n\n" + verdicts +
           (verdicts.empty() ? "" : "\n" + rounds_line(result)) + (verdicts.empty() || notes.empty() ? "" : "\n") +
           notes + "\n";
  }
  if (out.empty()) return "Not yet measured on any machine.\n";
  if (!gpu) out += "On a GPU: not yet measured.\n";
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string lessons_markdown(const std::vector<LessonEntry>& lessons, const std::vector<Result>& published,
                             const std::filesystem::path& page, const std::filesystem::path& root) {
  Rows rows = {{"", "lesson", "question", "on a CPU", "on a GPU"}};
  for (const LessonEntry& lesson : lessons) {
    const std::string link =
        (root / "lessons" / lesson.name / "README.md").lexically_relative(page.parent_path()).generic_string();
    const auto verdict = [&](bool gpu) {
      return lesson.survey ? std::string("a survey") : first_verdict(published, lesson.name, gpu);
    };
    rows.push_back({lesson.name.substr(0, 2), "[" + markdown_cell(lesson.title) + "](" + link + ")",
                    markdown_cell(lesson.question), markdown_cell(verdict(false)), markdown_cell(verdict(true))});
  }
  return rows.size() > 1 ? markdown_table(rows) : "No lesson is built.\n";
}

std::string results_markdown(const std::vector<Result>& published, const std::filesystem::path& root) {
  std::map<std::string, std::vector<const Result*>> machines;
  for (const Result& result : published) machines[result.machine.id].push_back(&result);
  if (machines.empty()) return "Nothing was published yet.\n";
  std::string out;
  for (const auto& [id, results] : machines) {
    out += "## " + id + "\n\n" + markdown_cell(machine_text(results.front()->machine)) + ", " +
           markdown_cell(results.front()->machine.os) + "; LibTorch " + results.front()->machine.libtorch + ".\n\n";
    Rows rows = {
        {"lesson", "technique", "case", "device", "speed", "memory", "agreement", "predicted speed", "expected"}};
    for (const Result* result : results) {
      if (result->is_survey()) continue;
      const bool stale = result->code_hash != code_hash(root / "lessons" / result->lesson);
      for (const CaseResult& c : result->cases) {
        for (const Verdict& verdict : c.verdicts) {
          const VariantResult* variant = variant_of(c, verdict.technique);
          if (!variant) continue;
          std::vector<std::string> row = {result->lesson.substr(0, 2) + " " + result->title + (stale ? " (stale)" : ""),
                                          verdict.technique,
                                          c.name,
                                          c.device + (c.ranks > 1 ? ", " + std::to_string(c.ranks) + " ranks" : ""),
                                          verdict.quality ? time_to_quality_text(verdict) : speed_text(verdict.speed),
                                          memory_text(verdict.memory),
                                          agreement_text(verdict),
                                          prediction_text(*variant, verdict),
                                          expectation_text(*variant, verdict)};
          for (std::string& cell : row) cell = markdown_cell(cell);
          rows.push_back(std::move(row));
        }
      }
    }
    out += (rows.size() > 1 ? markdown_table(rows) : "Only surveys were made.\n") + "\n";
    const std::string peers = peer_ratios_markdown(read_bench_reports(root / "results" / id / "bench"));
    if (!peers.empty())
      out +=
          "### Beside Python\n\nThe same work by this suite and by what Python users have, in turns, on the same "
          "cores: "
          "`./tenfold bench --peers`.\n\n" +
          peers + "\n";
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace tenfold
