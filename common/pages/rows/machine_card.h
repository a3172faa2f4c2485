#pragma once
// What a machine is and what it reached at most, as shares of what its maker states.

#include <optional>
#include <string>

#include "common/machine/machine.h"
#include "common/pages/rows/comparison_text.h"

namespace tenfold {

/// A measured ceiling over the maker's figure for it; none where no figure is known. CPUs have none: what of their data
/// sheet a core of a shared or virtual machine may use is not known.
std::optional<double> share_of_makers(const Machine& machine, const std::string& ceiling, double value);

/// "copy, GPU", "13.2 GB/s".
std::string ceiling_name(const std::string& ceiling);
std::string ceiling_text(const std::string& ceiling, double value);

/// CPU, memory and GPUs of both sides, then every ceiling that either side measured, with its share.
Cells machine_cells(const Machine& a, const Machine& b);

/// One line: whose figures the shares are of, with their documents, or why there are none.
std::string makers_text(const Machine& a, const Machine& b);

}  // namespace tenfold
