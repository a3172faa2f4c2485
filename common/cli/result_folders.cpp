#include "common/cli/result_folders.h"

#include <algorithm>

#include "common/base/flags.h"
#include "common/cli/paths.h"
#include "common/cli/this_machine.h"
#include "common/pages/rows/sweeps.h"

namespace tenfold::cli {

namespace fs = std::filesystem;

fs::path out_folder(const std::string& chosen) {
  // The shell's current folder, not the checkout, is what a relative name means to the one who typed it.
  return chosen.empty() ? source_folder() / "out" / this_machine().id : fs::absolute(chosen);
}

std::vector<Result> read_results(const fs::path& path) {
  if (!fs::exists(path)) throw UsageError(path.string() + ": does not exist; name a result file or a folder of them");
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (auto at = fs::recursive_directory_iterator(path); at != fs::recursive_directory_iterator(); ++at) {
      const std::string name = at->path().filename().string();
      if (at->is_directory() && (name == kBenchFolder || name == "compiler" || name == kSweepsFolder ||
                                 name == kRanksFolder || name == kReproducedFolder))
        at.disable_recursion_pending();  // reports of other kinds, and rows that no lesson's own is compared with
      if (at->is_regular_file() && at->path().extension() == ".json") files.push_back(at->path());
    }
    if (files.empty()) throw UsageError(path.string() + ": holds no result file (*.json)");
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  std::vector<Result> results;
  for (const fs::path& file : files) results.push_back(read_result(file));
  return results;
}

fs::path report_page(const fs::path& out, const std::string& chosen) {
  return (chosen.empty() ? out.parent_path() : out) / "report.html";
}

std::vector<Result> report_sweeps(const fs::path& out, const std::string& machine) {
  std::vector<Result> sweeps = sweeps_in(out / kSweepsFolder);
  const auto file_of = [](const Result& sweep) { return is_sweep(sweep) ? sweep_file(sweep) : ""; };
  const size_t local = sweeps.size();
  for (Result& published : published_sweeps(source_folder(), machine)) {
    const auto end = sweeps.begin() + static_cast<std::ptrdiff_t>(local);
    if (std::none_of(sweeps.begin(), end, [&](const Result& own) { return file_of(own) == file_of(published); }))
      sweeps.push_back(std::move(published));
  }
  std::sort(sweeps.begin(), sweeps.end(), [&](const Result& a, const Result& b) { return file_of(a) < file_of(b); });
  return sweeps;
}

}  // namespace tenfold::cli
