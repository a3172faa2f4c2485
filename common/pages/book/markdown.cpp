#include "common/pages/book/markdown.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "common/base/text.h"
#include "common/pages/book/bench_report.h"
#include "common/pages/book/sweep_table.h"
#include "common/pages/rows/headlines.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/sweeps.h"
#include "common/pages/rows/table.h"
#include "common/result/code_hash.h"

namespace tenfold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Of the lesson's newest result on this kind of device.
std::string newest_verdict(const std::vector<Result>& published, const std::string& lesson, bool gpu) {
  const Result* newest = nullptr;
  const Verdict* found = nullptr;
  for (const Result& result : published) {
    if (result.lesson != lesson || (newest && result.started_at <= newest->started_at)) continue;
    if (const Verdict* verdict = headline_of(result, gpu).verdict) newest = &result, found = verdict;
  }
  if (!found) return "not yet measured";
  if (found->quality) return found->technique + ": " + quality_verdict_text(*found->quality);
  const std::string memory = found->memory.ratio ? "; memory " + memory_text(found->memory) : "";
  return found->technique + ": speed " + speed_text(found->speed) + memory;
}

/// Below the heading nothing but numbers with their units: those line up at the right.
bool all_numbers(const Rows& rows, size_t column) {
  bool any = false;
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::string& cell = rows[i].at(column);
    if (cell.empty() || cell == "-" || cell == "not counted") continue;
    if (std::isdigit(static_cast<unsigned char>(cell.front())) == 0 || cell.find('(') != std::string::npos ||
        cell.find('[') != std::string::npos || cell.find(':') != std::string::npos ||
        cell.find(',') != std::string::npos)
      return false;
    any = true;
  }
  return any && column > 0;
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
    for (size_t j = 0; j < rows[0].size(); ++j) out += all_numbers(rows, j) ? "---:|" : "---|";
    out += "\n";
  }
  return out;
}

std::string lessons_markdown(const std::vector<LessonEntry>& lessons, const std::vector<Result>& published,
                             const std::vector<Result>& references, const std::filesystem::path& page,
                             const std::filesystem::path& root) {
  const bool any_gpu = std::any_of(published.begin(), published.end(), [](const Result& result) {
    return headline_of(result, /*gpu=*/true).verdict != nullptr;
  });
  Rows rows = {{"", "lesson", "question", "on a CPU"}};
  if (any_gpu) rows[0].emplace_back("on a GPU");
  for (const LessonEntry& lesson : lessons) {
    const std::string link =
        (root / "lessons" / lesson.name / "README.md").lexically_relative(page.parent_path()).generic_string();
    const auto verdict = [&](bool gpu) {
      if (lesson.survey) return std::string("counts, and times nothing");
      const bool has_reference = !gpu && result_of(references, lesson.name) != nullptr;
      return newest_verdict(has_reference ? references : published, lesson.name, gpu);
    };
    rows.push_back({number_of_name(lesson.name), "[" + markdown_cell(lesson.title) + "](" + link + ")",
                    markdown_cell(lesson.question), markdown_cell(verdict(false))});
    if (any_gpu) rows.back().push_back(markdown_cell(verdict(true)));
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
          std::vector<std::string> row = {
              number_of_name(result->lesson) + " " + result->title + (stale ? " (stale)" : ""),
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
    const std::string sweeps = sweeps_markdown(published_sweeps(root, id), root);
    if (!sweeps.empty())
      out +=
          "### Where it starts to pay\n\nEach technique over one setting, from the first value to the last; FASTER and "
          "SMALLER are the "
          "verdicts at single values. The curves stand on the lessons' pages.\n\n" +
          sweeps + "\n";
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
