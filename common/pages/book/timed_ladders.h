#pragma once
// What GPUs took for a kernel's rungs, from the reports of its benchmark in results/MACHINE/bench.

#include <filesystem>
#include <string>
#include <vector>

namespace tenfold {

/// Of each GPU that has timed the ladders of a benchmark program, "hgemm": a table for each ladder, all but the first
/// folded. Times are medians of the rounds, a ratio is the median of the rounds' quotients with its interval. A
/// sentence where no GPU has. `root` is the checkout. Throws FileError with one line on a damaged report.
std::string timed_ladders_markdown(const std::filesystem::path& root, const std::string& program);

/// The machines whose GPUs have timed the benchmark's ladders, by id: those of timed_ladders_markdown().
std::vector<std::string> gpus_that_timed(const std::filesystem::path& root, const std::string& program);

}  // namespace tenfold
