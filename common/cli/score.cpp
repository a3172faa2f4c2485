// score: a dry GPU's set held against what a card measured.

#include <algorithm>
#include <iostream>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/compare_set.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/comparison_text.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/score.h"
#include "common/result/seal.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

std::string first_start(const std::vector<Result>& results) {
  return std::ranges::min_element(results, {}, &Result::started_at)->started_at;
}
std::string last_start(const std::vector<Result>& results) {
  return std::ranges::max_element(results, {}, &Result::started_at)->started_at;
}

/// Which of the two came first, and whether the set is as it was committed.
std::string seal_text(const ComparedSet& dry, const ComparedSet& measured) {
  if (!fs::is_directory(dry.path)) return "A single file has no seal.";
  const std::string seal = check_seal(dry.path), said = last_start(dry.results), came = first_start(measured.results);
  return "Sealed (" + seal.substr(0, 12) + "), " + said.substr(0, 10) + "; measured " + came.substr(0, 10) +
         (said < came ? "." : ": before the set was sealed, so that this is no test of it.");
}

Cells cells_of(const Score& score) {
  Cells cells = {{"lesson, case", "variant", "said", "measured", "miss", "", "peak said", "measured", "error"}};
  const auto bytes = [](const std::optional<int64_t>& peak) {
    return peak ? human_bytes(static_cast<double>(*peak)) : "-";
  };
  for (const ScoredRow& row : score.rows) {
    const auto miss = row.miss(), error = row.peak_error();
    cells.push_back({number_of_name(row.lesson) + " " + row.case_name, row.variant,
                     row.said.ratio ? speed_text(row.said) : "-", row.measured.ratio ? speed_text(row.measured) : "-",
                     miss ? human_percent(*miss) : "-", row.inside() ? (*row.inside() ? "inside" : "outside") : "",
                     bytes(row.counted_bytes), bytes(row.bytes), error ? human_percent(*error, /*sign=*/true) : "-"});
  }
  return cells;
}

}  // namespace

int score(const std::string& dry_path, const std::string& measured_path) {
  const ComparedSet dry = read_set(dry_path), measured = read_set(measured_path);
  for (const auto& [set, wanted] : {std::pair(&dry, true), std::pair(&measured, false)}) {
    if (set->results.empty()) throw UsageError(set->path + ": holds no result of a lesson");
    if (is_dry(*set->machine()) != wanted)
      throw UsageError(set->path + (wanted ? ": was measured; the first is what a dry GPU said, e.g. results/dry-h100"
                                           : ": is of a dry GPU; the second is what a card measured"));
  }
  const Score all = tenfold::score(dry.results, measured.results);
  if (all.rows.empty())
    throw UsageError(measured_path + ": has no row that " + dry_path +
                     " speaks of: the lessons' versions, sizes and settings must be equal");
  std::cout << "said:     " << machine_text(dry.results.front().machine) << "\n"
            << "measured: " << machine_text(measured.results.front().machine) << "\n"
            << seal_text(dry, measured) << "\n\n"
            << in_columns(cells_of(all)) << "\n";
  const size_t speeds = all.speeds().size();
  if (speeds > 0)
    std::cout << "speeds: " << all.inside() << " of " << speeds << " inside, " << all.same_sign()
              << " of the same sign, median miss " << human_percent(*all.median_miss()) << "\n";
  if (const auto error = all.median_peak_error()) std::cout << "peaks: median error " << human_percent(*error) << "\n";
  for (const std::string& line : refused_lines(all.refused))
    std::cout << "  not scored: " << wrap_text(line, 118, 6) << "\n";
  return 0;
}

}  // namespace tenfold::cli
