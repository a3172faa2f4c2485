#include "common/pages/sweep_table.h"

#include <algorithm>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/markdown.h"
#include "common/pages/table.h"
#include "common/result/code_hash.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// "everywhere", "nowhere", or the values; "-" where nothing was measured, "not decided" where no verdict was reached.
std::string where(const Texts& values, size_t decided, size_t points, bool measured) {
  if (!measured) return "-";
  if (decided == 0) return "not decided";
  if (values.empty()) return "nowhere";
  return values.size() == points ? "everywhere" : joined(values);
}

bool is_decided(const std::string& label) {
  return label == "FASTER" || label == "SLOWER" || label == "SAME" || label == "SMALLER" || label == "LARGER";
}

double number_of(const SettingValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&value);
  return real ? *real : 0;  // words keep their order
}

Texts row_of(const Result& sweep, const std::string& technique, bool stale) {
  Texts swept, faster, smaller, speeds, memories;
  size_t speeds_decided = 0, memories_decided = 0;
  std::vector<const CaseResult*> points;
  for (const CaseResult& c : sweep.cases) points.push_back(&c);
  std::ranges::stable_sort(points, {}, [](const CaseResult* c) { return number_of(c->sweep->value); });
  for (const CaseResult* c : points) {
    const Verdict* verdict = verdict_of(*c, technique);
    if (!verdict) continue;
    speeds_decided += is_decided(verdict->speed.label) ? 1 : 0;
    memories_decided += is_decided(verdict->memory.label) ? 1 : 0;
    swept.push_back(to_string(c->sweep->value));
    if (verdict->speed.label == "FASTER") faster.push_back(swept.back());
    if (verdict->memory.label == "SMALLER") smaller.push_back(swept.back());
    if (verdict->speed.ratio) speeds.push_back(human_ratio(*verdict->speed.ratio));
    if (verdict->memory.ratio) memories.push_back(human_ratio(*verdict->memory.ratio));
  }
  if (swept.size() < 2) return {};
  const auto ends = [](const Texts& values) { return values.empty() ? "-" : values.front() + " to " + values.back(); };
  const CaseResult& c = sweep.cases.front();
  Texts row = {sweep.lesson.substr(0, 2) + " " + sweep.title + (stale ? " (stale)" : ""),
               technique,
               swept_case(c),
               c.sweep->setting + " " + joined(swept),
               ends(speeds),
               where(faster, speeds_decided, swept.size(), !speeds.empty()),
               ends(memories),
               where(smaller, memories_decided, swept.size(), !memories.empty())};
  for (std::string& cell : row) cell = markdown_cell(cell);
  return row;
}

}  // namespace

std::string sweep_file(const std::string& lesson, const std::string& setting, const std::string& case_name) {
  return lesson.substr(0, 2) + "_" + file_part(setting) + "_" + file_part(case_name) + ".json";
}

std::string swept_case(const CaseResult& point) {
  return point.name.substr(0, point.name.rfind(" " + point.sweep.value().setting + "="));
}

std::vector<Result> sweeps_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Result> sweeps;
  sweeps.reserve(files.size());
  for (const fs::path& file : files) {
    sweeps.push_back(read_result(file));
    for (const CaseResult& c : sweeps.back().cases) {
      if (!c.sweep) throw FileError(file.string() + ": case '" + c.name + "' is no point of a sweep");
    }
  }
  return sweeps;
}

std::vector<Result> published_sweeps(const fs::path& root, const std::string& machine) {
  return sweeps_in(root / "results" / machine / "sweeps");
}

std::string sweeps_markdown(const std::vector<Result>& sweeps, const fs::path& root) {
  std::vector<Texts> rows = {{"lesson", "technique", "case", "setting", "speed", "FASTER at", "memory", "SMALLER at"}};
  for (const Result& sweep : sweeps) {
    if (sweep.cases.empty()) continue;
    const bool stale = sweep.code_hash != code_hash(root / "lessons" / sweep.lesson);
    for (const Verdict& verdict : sweep.cases.front().verdicts) {
      if (Texts row = row_of(sweep, verdict.technique, stale); !row.empty()) rows.push_back(std::move(row));
    }
  }
  return rows.size() > 1 ? markdown_table(rows) : "";
}

}  // namespace tenfold
