#pragma once
// What this machine is: the fields of a result file's "machine" that need no LibTorch.

#include <filesystem>
#include <istream>
#include <map>
#include <string>

#include "common/base/files.h"
#include "common/machine/machine.h"

namespace tenfold {

/// CPU, cores this process may use, memory, operating system, GPUs and driver (NVML, loaded at run time; absent is
/// fine). `id` is made of hardware names only, e.g. "2x-amd-epyc-9654", "2x-amd-epyc-26-2" or "h100-80gb-hbm3": no host
/// or user name. Where $TENFOLD_MACHINE says so (hardware.h), it is this machine's own_id(). `compiler` is the one that
/// built this program; kernels are always g++'s. `libtorch`, `cuda`, `cudnn` and `nccl` are left for the caller that
/// links LibTorch.
Machine fingerprint();

/// The CPU's name from the text of /proc/cpuinfo; empty where it has none. In a virtual machine it may be "AMD EPYC",
/// for processors with and without AVX-512: a name without a number is followed by the family and model that the
/// processor itself gives, "AMD EPYC (family 26, model 2)".
std::string cpu_name(std::istream& cpuinfo);

/// Cores in the affinity mask, but no more than the control group's quota buys.
int usable_cores();

/// Where `tenfold probe` keeps the measured ceilings of a machine: <cache>/probe/<id>.json.
std::filesystem::path ceilings_file(const std::string& machine_id);

/// The measured ceilings of a machine; empty when it was never probed. Throws FileError on a damaged file.
std::map<std::string, double> read_ceilings(const std::string& machine_id);

}  // namespace tenfold
