#pragma once
// The page of all results.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// Every verdict, by machine, and what its benchmarks say beside Python.
std::string results_markdown(const std::vector<Result>& published, const std::filesystem::path& root);

}  // namespace tenfold
