#pragma once
// Where results, sweeps, reports and the page of a machine lie, and how a folder of them is read.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold::cli {

/// The file itself, or every *.json below a folder, sorted. Throws UsageError when there is none, FileError on a bad
/// one.
std::vector<Result> read_results(const std::filesystem::path& path);

/// Where, below a folder of results, those of sweeps lie, apart from the lessons' own.
inline const std::filesystem::path kSweepsFolder = "sweeps";

/// Where those of several numbers of ranks lie, which have a case more than once.
inline const std::filesystem::path kRanksFolder = "ranks";

/// Where the benchmarks' reports lie, below a machine's published results and below out/.
inline const std::filesystem::path kBenchFolder = "bench";

/// Where, below a folder of results, what `reproduce` measured lies, unless told otherwise.
inline const std::filesystem::path kReproducedFolder = "reproduced";

/// <source>/out/<machine id>, unless `chosen` names another folder.
std::filesystem::path out_folder(const std::string& chosen);

/// out/report.html; in the chosen folder when there is one.
std::filesystem::path report_page(const std::filesystem::path& out, const std::string& chosen);

/// Sweeps for the report: those below `out`, and of those published for `machine` the others. Throws FileError.
std::vector<Result> report_sweeps(const std::filesystem::path& out, const std::string& machine);

}  // namespace tenfold::cli
