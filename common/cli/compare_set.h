#pragma once
// What one side of a comparison is: everything that a file or a folder holds.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold::cli {

struct ComparedSet {
  std::string path;  ///< as it was typed
  std::vector<Result> results, sweeps;

  /// The results; where there is none, as in a file that is a sweep, the sweeps.
  const std::vector<Result>& first() const;
  const Machine& machine() const { return first().front().machine; }
};

/// A file, or the results below a folder with the sweeps in its folder of sweeps. Throws UsageError where there is
/// nothing, or results of two machines; FileError on a damaged file.
ComparedSet read_set(const std::string& path);

}  // namespace tenfold::cli
