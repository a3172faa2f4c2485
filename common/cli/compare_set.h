#pragma once
// What one side of a comparison is: everything that a file or a folder holds.

#include <string>
#include <vector>

#include "common/pages/rows/kernel_rows.h"
#include "common/result/result.h"

namespace tenfold::cli {

struct ComparedSet {
  std::string path;  ///< as it was typed
  std::vector<Result> results, sweeps;
  std::vector<KernelRow> kernels;

  /// The results; where there is none, as in a file that is a sweep, the sweeps.
  const std::vector<Result>& first() const;
  /// Null where there are kernels' times alone, whose reports name the machine and do not describe it.
  const Machine* machine() const { return first().empty() ? nullptr : &first().front().machine; }
};

/// A file, be it a result, a sweep or a benchmark's report; or the results below a folder with the sweeps in its folder
/// of sweeps and the reports in its folder bench; or a folder of reports. Throws UsageError where there is nothing, or
/// results of two machines; FileError on a damaged file.
ComparedSet read_set(const std::string& path);

}  // namespace tenfold::cli
