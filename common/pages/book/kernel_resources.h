#pragma once
// The table of registers, shared memory and spills of every kernel, from results/compiler/kernel_resources.json.

#include <filesystem>
#include <string>

namespace tenfold {

/// Over the files that make times of machine code and counts, as kernel_resources.py computes it: their code, without
/// comments.
std::string kernel_model_hash(const std::filesystem::path& root);

/// The same over the files that decide what the compiler makes of a kernel.
std::string kernel_sources_hash(const std::filesystem::path& root, const std::string& kernel);

/// One row per `__global__` function with a column per architecture: registers, static shared memory, spills where
/// there are any; and the machines on which the kernel was timed, by results/MACHINE/bench/KERNEL.json, what `./tenfold
/// bench KERNEL` writes on a GPU. A kernel whose sources have changed since is marked stale. `root` is the checkout.
/// Throws FileError with one line on a missing or damaged file.
std::string kernel_resources_markdown(const std::filesystem::path& root);

}  // namespace tenfold
