#pragma once
// Measured rates of a GPU as shares of what its maker states.

#include <optional>
#include <string>

#include "common/machine/gpu_ceilings.h"
#include "common/machine/machine.h"

namespace tenfold {

/// The card that a machine's CUDA ceilings were measured on; null without a figure to cite: no GPU, a dry one, or one
/// that the table does not have.
const simt::GpuCeilings* card_of(const Machine& machine);

/// A measured ceiling over the maker's figure for it; none where no figure is known. CPUs have none: what of their data
/// sheet a core of a shared or virtual machine may use is not known.
std::optional<double> share_of_makers(const Machine& machine, const std::string& ceiling, double value);

}  // namespace tenfold
