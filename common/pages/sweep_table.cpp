#include "common/pages/sweep_table.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/pages/markdown.h"
#include "common/pages/table.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<std::string>;

/// "everywhere", "nowhere", or the values.
std::string where(const Row& values, size_t points) {
  if (values.empty()) return "nowhere";
  return values.size() == points ? "everywhere" : joined(values);
}

Row row_of(const Result& sweep, const std::string& technique) {
  Row all, faster, smaller, speeds, memories;
  for (const CaseResult& c : sweep.cases) {
    const Verdict* verdict = verdict_of(c, technique);
    if (!verdict || !c.sweep) continue;
    all.push_back(to_string(c.sweep->value));
    if (verdict->speed.label == "FASTER") faster.push_back(all.back());
    if (verdict->memory.label == "SMALLER") smaller.push_back(all.back());
    if (verdict->speed.ratio) speeds.push_back(human_ratio(*verdict->speed.ratio));
    if (verdict->memory.ratio) memories.push_back(human_ratio(*verdict->memory.ratio));
  }
  if (all.size() < 2) return {};
  const auto ends = [](const Row& values) { return values.empty() ? "-" : values.front() + " to " + values.back(); };
  const CaseResult& c = sweep.cases.front();
  // A point's name is the case's with the value behind it: "gpt length=8".
  const std::string name = c.name.substr(0, c.name.rfind(" " + c.sweep->setting + "="));
  Row row = {sweep.lesson.substr(0, 2) + " " + sweep.title,
             technique,
             name,
             c.sweep->setting + " " + joined(all),
             ends(speeds),
             where(faster, all.size()),
             ends(memories),
             where(smaller, all.size())};
  for (std::string& cell : row) cell = markdown_cell(cell);
  return row;
}

}  // namespace

std::vector<Result> published_sweeps(const fs::path& root, const std::string& machine) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "results" / machine / "sweeps", none)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Result> sweeps;
  sweeps.reserve(files.size());
  for (const fs::path& file : files) sweeps.push_back(read_result(file));
  return sweeps;
}

std::string sweeps_markdown(const std::vector<Result>& sweeps) {
  std::vector<Row> rows = {{"lesson", "technique", "case", "setting", "speed", "FASTER at", "memory", "SMALLER at"}};
  for (const Result& sweep : sweeps) {
    if (sweep.cases.empty()) continue;
    for (const Verdict& verdict : sweep.cases.front().verdicts) {
      if (Row row = row_of(sweep, verdict.technique); !row.empty()) rows.push_back(std::move(row));
    }
  }
  return rows.size() > 1 ? markdown_table(rows) : "";
}

}  // namespace tenfold
