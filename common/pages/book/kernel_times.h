#pragma once
// How long GPUs take for each kernel by the model of kernels/model/kernel_time.py, from
// results/compiler/kernel_times.json.

#include <filesystem>
#include <string>
#include <vector>

namespace tenfold {

/// results/compiler/kernel_times.json below the checkout.
std::filesystem::path kernel_times_file(const std::filesystem::path& root);

/// One row for each rung, a column for each GPU: the share of what the GPU allows, and what holds the rung up. Of all
/// kernels, or of the one that is named, its backward pass under its forward pass, with the instructions and the bytes
/// on an H100. A kernel whose sources have changed
/// since is marked stale. `root` is the checkout. Throws FileError with one line on a missing or damaged file.
std::string kernel_times_markdown(const std::filesystem::path& root, const std::string& kernel = "");

/// The same for a terminal, with what it means; empty for a kernel that is not modelled.
std::string kernel_times_text(const std::filesystem::path& root, const std::string& kernel);

/// What holds one rung up, for a terminal: seconds of each bound on each GPU, the longest marked, with registers and
/// blocks on an SM. `rung` is a number or a name. Empty for a kernel or a rung that is not modelled.
std::string kernel_bounds_text(const std::filesystem::path& root, const std::string& kernel, const std::string& rung);

/// Names of an operation's rungs in their order, "cp.async"; none where it is not modelled. Throws as
/// kernel_times_markdown().
std::vector<std::string> rung_names(const std::filesystem::path& root, const std::string& operation);

}  // namespace tenfold
