#include "common/cli/compare_set.h"

#include <algorithm>
#include <filesystem>

#include "common/base/files.h"
#include "common/base/flags.h"
#include "common/cli/result_folders.h"
#include "common/machine/hardware.h"
#include "common/pages/rows/sweeps.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// The benchmarks' reports of a side, by name: itself, those right in the folder, or those in its folder bench.
std::vector<fs::path> reports_at(const fs::path& path) {
  if (fs::is_regular_file(path))
    return is_bench_report(read_text(path)) ? std::vector<fs::path>{path} : std::vector<fs::path>{};
  std::vector<fs::path> reports;
  for (const fs::path& folder : {path, path / kBenchFolder}) {
    for (const fs::path& file : json_files_in(folder)) {
      if (is_bench_report(read_text(file))) reports.push_back(file);
    }
  }
  std::sort(reports.begin(), reports.end());
  return reports;
}

/// Throws UsageError unless a result is of the set's machine: rows of two would stand in one column.
void require_same_machine(const std::string& path, const Machine& first, const Machine& machine) {
  if (machine.id == first.id && (is_dry(machine) || same_hardware(machine, first))) return;
  throw UsageError(path + ": holds results of two machines, " + first.id + " (" + hardware_text(first) + ") and " +
                   machine.id + " (" + hardware_text(machine) + "); name the folder of one");
}

}  // namespace

const std::vector<Result>& ComparedSet::first() const { return results.empty() ? sweeps : results; }

ComparedSet read_set(const std::string& path) {
  ComparedSet set{.path = path, .sweeps = sweeps_in(fs::path(path) / kSweepsFolder)};
  const std::vector<fs::path> reports = reports_at(path);
  for (const fs::path& report : reports) std::ranges::move(read_kernel_rows(report), std::back_inserter(set.kernels));
  const bool alone = !reports.empty() && (fs::is_regular_file(path) || reports.front().parent_path() == fs::path(path));
  if (alone) return set;
  for (Result& result : read_results(path)) (is_sweep(result) ? set.sweeps : set.results).push_back(std::move(result));
  for (const auto* results : {&set.results, &set.sweeps}) {
    for (const Result& result : *results) require_same_machine(path, *set.machine(), result.machine);
  }
  return set;
}

}  // namespace tenfold::cli
