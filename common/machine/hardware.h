#pragma once
// Whether two descriptions are of the same hardware. A machine's id is short, so two machines may have the same one:
// "2x-amd-epyc" says nothing of the memory, and "h100-80gb-hbm3" nothing of what surrounds the GPU.

#include <string>

#include "common/machine/machine.h"

namespace tenfold {

/// CPU, cores, memory and every GPU: "AMD EPYC, 2 cores, 24 GiB memory; 2 x NVIDIA H100 80GB HBM3, 80 GiB".
std::string hardware_text(const Machine& machine);

/// The same CPU, cores and GPUs, and as much memory but for 2 %, which a kernel may keep or give. Two nodes of one type
/// are the same hardware: no host's name is recorded that could tell them apart.
bool same_hardware(const Machine& a, const Machine& b);

/// The id followed by six digits that follow from the hardware: "2x-amd-epyc-1f03c7". For a machine whose id is taken
/// by other hardware.
std::string own_id(const Machine& machine);
std::string own_id(const std::string& id, const std::string& hardware);

/// Where this names this machine's own_id(), fingerprint() takes it for the id. The driver sets it for the programs
/// that it starts. On other hardware, to which a launcher may carry it, it means nothing.
inline constexpr const char* kOwnId = "TENFOLD_MACHINE";

}  // namespace tenfold
