#include "common/pages/book/sweep_table.h"

#include "common/base/text.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/sweeps.h"
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

Texts row_of(const Result& sweep, const std::string& technique, bool stale) {
  Texts swept, faster, smaller, speeds, memories;
  size_t speeds_decided = 0, memories_decided = 0;
  for (const CaseResult* c : points_of(sweep)) {
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
  return {number_of_name(sweep.lesson) + " " + sweep.title + (stale ? " (stale)" : ""),
          technique,
          swept_case(c),
          c.sweep->setting + " " + joined(swept),
          ends(speeds),
          where(faster, speeds_decided, swept.size(), !speeds.empty()),
          ends(memories),
          where(smaller, memories_decided, swept.size(), !memories.empty())};
}

}  // namespace

std::string sweeps_markdown(const std::vector<Result>& sweeps, const fs::path& root) {
  std::vector<Texts> rows = {{"lesson", "technique", "case", "setting", "speed", "FASTER at", "memory", "SMALLER at"}};
  for (const Result& sweep : sweeps) {
    if (sweep.cases.empty()) continue;
    const bool stale = sweep.code_hash != code_hash(root / "lessons" / sweep.lesson);
    for (const Verdict& verdict : sweep.cases.front().verdicts) {
      if (Texts row = row_of(sweep, verdict.technique, stale); !row.empty()) rows.push_back(std::move(row));
    }
  }
  return rows.size() > 1 ? markdown_table_of_texts(rows) : "";
}

}  // namespace tenfold
