#include "common/cli/compare_set.h"

#include <algorithm>
#include <filesystem>

#include "common/machine/hardware.h"
#include "common/pages/rows/sweeps.h"

#include "common/cli/commands.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

bool is_sweep(const Result& result) {
  return !result.cases.empty() &&
         std::ranges::all_of(result.cases, [](const CaseResult& c) { return c.sweep.has_value(); });
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
  for (Result& result : read_results(path)) (is_sweep(result) ? set.sweeps : set.results).push_back(std::move(result));
  for (const auto* results : {&set.results, &set.sweeps}) {
    for (const Result& result : *results) require_same_machine(path, set.machine(), result.machine);
  }
  return set;
}

}  // namespace tenfold::cli
