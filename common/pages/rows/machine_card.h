#pragma once
// What a machine is and what it reached at most, as shares of what its maker states.

#include <string>

#include "common/machine/machine.h"
#include "common/pages/rows/comparison_text.h"

namespace tenfold {

/// "copy, GPU", "13.2 GB/s".
std::string ceiling_name(const std::string& ceiling);
std::string ceiling_text(const std::string& ceiling, double value);

/// CPU, memory and GPUs of both sides, then every ceiling that either side measured, with its share.
Cells machine_cells(const Machine& a, const Machine& b);

/// One line: whose figures the shares are of, with their documents, or why there are none.
std::string makers_text(const Machine& a, const Machine& b);

}  // namespace tenfold
