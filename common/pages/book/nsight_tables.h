#pragma once
// What Nsight Compute should report of the kernels, from results/compiler/nsight_compute.json, and what a kernel's
// control bits say of its loads, from results/compiler/loads_in_flight.json. kernels/model/ writes both.

#include <filesystem>
#include <string>

namespace tenfold {

/// One row for each metric: what of ours stands beside it, where it is in a report, how near it should be. `root` is
/// the checkout. Throws FileError with one line on a missing or damaged file, as all of these do.
std::string nsight_metrics_markdown(const std::filesystem::path& root);

/// One row for each rung: what a report of its longest kernel should say. A kernel whose sources have changed since is
/// marked stale.
std::string nsight_sheet_markdown(const std::filesystem::path& root);

/// One row for each rung: the global loads of a warp that are on their way at once, and bytes of all warps of an SM.
std::string loads_in_flight_markdown(const std::filesystem::path& root);

/// A loop's machine code beside its source lines, with the control bits.
std::string control_bits_markdown(const std::filesystem::path& root);

/// How often the control bits were found as a right program has them.
std::string control_bits_check_markdown(const std::filesystem::path& root);

}  // namespace tenfold
