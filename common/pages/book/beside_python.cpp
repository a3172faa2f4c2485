#include "common/pages/book/beside_python.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "common/pages/book/bench_report.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/rows.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInPython = "Python eager";

bool has_python(const CaseResult& c) {
  return std::ranges::any_of(c.variants, [](const VariantResult& variant) {
    return variant.name == kInPython && variant.status != "skipped";
  });
}

/// A row for each variant of the lessons' cases that Python runs, too; empty without any.
std::string lesson_rows(const std::vector<const Result*>& results, const Page& page) {
  std::vector<std::vector<std::string>> rows = {{"lesson", "case", "step", "speed", "agreement"}};
  for (const Result* result : results) {
    const std::string lesson = lesson_link(page, result->lesson) + earlier(page, *result);
    for (const CaseResult& c : result->cases) {
      if (!has_python(c)) continue;
      for (const VariantRow& row : rows_of(c).rows) {
        if (row.variant->status == "skipped") continue;
        rows.push_back({lesson, markdown_cell(c.name), markdown_cell(row.variant->name),
                        markdown_cell(row.at(Column::speed).text), markdown_cell(row.at(Column::agreement).text)});
      }
    }
  }
  return rows.size() == 1 ? "" : markdown_table(rows);
}

}  // namespace

std::string beside_python_markdown(const Page& page) {
  std::map<std::string, std::vector<const Result*>> by_machine;
  for (const Result& result : page.published) by_machine[result.machine.id].push_back(&result);
  std::vector<std::string> machines = reference_machines(page.root);
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(page.root / "results", none)) {
    const std::string id = entry.path().filename().string();
    const bool of_machine = by_machine.contains(id) || fs::exists(entry.path() / "bench", none);
    if (of_machine && std::ranges::find(machines, id) == machines.end()) machines.push_back(id);
  }
  std::string out;
  for (const std::string& machine : machines) {
    const fs::path report = page.root / "results" / machine / "bench" / "training.json";
    const std::string steps = fs::exists(report) ? peer_ratios_markdown({read_bench_report(report)}) : "";
    const std::string lessons = lesson_rows(by_machine[machine], page);
    if (steps.empty() && lessons.empty()) continue;
    out += (out.empty() ? "" : "\n") + ("### " + machine + "\n\n") + steps;
    if (!lessons.empty()) out += (steps.empty() ? "" : "\n") + ("**In lessons**, by turns in one run:\n\n" + lessons);
  }
  return out.empty() ? "Not yet measured.\n" : out;
}

}  // namespace tenfold
