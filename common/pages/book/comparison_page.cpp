#include "common/pages/book/comparison_page.h"

#include <algorithm>
#include <stdexcept>

#include "common/base/text.h"
#include "common/pages/rows/comparison_text.h"
#include "common/pages/rows/machine_card.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/sweeps.h"

namespace tenfold {
namespace {

/// A machine's results, of these lessons; all of them where none is named.
std::vector<Result> results_of(const Page& page, const std::string& machine, const std::vector<std::string>& lessons) {
  std::vector<Result> results;
  for (const auto* published : {&page.published, &page.dry}) {
    for (const Result& result : *published) {
      const bool chosen = lessons.empty() || std::ranges::find(lessons, result.lesson) != lessons.end();
      if (result.machine.id == machine && chosen) results.push_back(result);
    }
  }
  if (results.empty())
    throw std::invalid_argument("compared: results/" + machine + " holds no result" +
                                (lessons.empty() ? "" : " of " + joined(lessons)));
  return results;
}

std::string table_of(const Cells& cells) {
  return cells.size() < 2 ? "Nothing was measured alike on both.\n" : markdown_table_of_texts(cells);
}

}  // namespace

std::string compared_markdown(const Page& page, const std::vector<std::string>& words) {
  if (words.size() < 3)
    throw std::invalid_argument("compared needs card, rows, noted, sweeps or refused, and two machines");
  const std::vector<std::string> lessons(words.begin() + 3, words.end());
  const std::vector<Result> a = results_of(page, words[1], lessons), b = results_of(page, words[2], lessons);
  if (words[0] == "card")
    return table_of(machine_cells(a.front().machine, b.front().machine)) + "\n" +
           makers_text(a.front().machine, b.front().machine) + "\n";
  const auto compared_sweeps = [&] {
    return compare_sweeps(published_sweeps(page.root, words[1]), published_sweeps(page.root, words[2]));
  };
  if (words[0] == "sweeps") return table_of(swept_cells(compared_sweeps().sweeps, kAB));
  const Comparison comparison = compare_results(a, b);
  if (words[0] == "rows") return table_of(compared_cells(comparison.rows));
  if (words[0] == "noted") return table_of(noted_cells(comparison.noted, kAB));
  if (words[0] != "refused") throw std::invalid_argument("compared: " + words[0] + " is no part of a comparison");
  const ComparedSweeps sweeps = compared_sweeps();
  std::vector<RefusedRow> refused = comparison.refused;
  refused.insert(refused.end(), sweeps.refused.begin(), sweeps.refused.end());
  std::string text = "<details><summary>" + std::to_string(comparison.rows.size()) + " rows are compared, " +
                     std::to_string(refused.size()) + " are not</summary>\n\n";
  for (const std::string& line : refused_lines(refused)) text += "- " + markdown_cell(line) + "\n";
  return text + "\n</details>\n";
}

}  // namespace tenfold
