#include "common/pages/book/results_page.h"

#include <map>

#include "common/base/text.h"
#include "common/pages/book/bench_report.h"
#include "common/pages/book/chapters.h"
#include "common/pages/book/sweep_table.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/rows.h"
#include "common/pages/rows/sweeps.h"
#include "common/result/code_hash.h"

namespace tenfold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

void add_rows(Rows& rows, const Result& result, const std::filesystem::path& root) {
  if (rows.empty())
    rows = {{"lesson", "technique", "case", "device", "speed", "memory", "agreement", "predicted speed", "expected"}};
  const bool stale = result.code_hash != code_hash(root / "lessons" / result.lesson);
  for (const VerdictRow& of : verdict_rows({&result, 1})) {
    rows.push_back({number_of_name(result.lesson) + " " + result.title + (stale ? " (stale)" : ""),
                    of.row.verdict->technique, of.c->name,
                    of.c->device + (of.c->ranks > 1 ? ", " + std::to_string(of.c->ranks) + " ranks" : ""),
                    with_detail(of.row.speed()), of.row.at(Column::memory).text, of.row.agreement().text,
                    of.row.at(Column::predicted_speed).text, of.row.at(Column::expected).text});
  }
}

}  // namespace

std::string results_markdown(const std::vector<Result>& published, const std::filesystem::path& root) {
  std::map<std::string, std::vector<const Result*>> machines;
  for (const Result& result : published) machines[result.machine.id].push_back(&result);
  if (machines.empty()) return "Nothing was published yet.\n";
  std::string out;
  for (const auto& [id, results] : machines) {
    out += "## " + id + "\n\n" + markdown_cell(machine_text(results.front()->machine)) + ", " +
           markdown_cell(results.front()->machine.os) + "; LibTorch " + results.front()->machine.libtorch + ".\n\n";
    std::map<std::string, Rows> chapters;  // by the first digit of their lessons' numbers
    for (const Result* result : results) {
      if (!result->is_survey()) add_rows(chapters[result->lesson.substr(0, 1)], *result, root);
    }
    for (const auto& [digit, rows] : chapters)
      out += "### " + chapter_of(digit + "0_") + "\n\n" + markdown_table_of_texts(rows) + "\n";
    if (chapters.empty()) out += "Only surveys were made.\n\n";
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
