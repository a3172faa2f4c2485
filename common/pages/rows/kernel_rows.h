#pragma once
// The times of kernels on GPUs, as `./tenfold bench` writes them (bench/ladder_report.cpp), of two sides.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/pages/rows/comparison_text.h"
#include "common/result/compare_results.h"
#include "common/result/statistics.h"

namespace tenfold {

/// One contestant of a ladder, on empty caches or on warm ones.
struct KernelRow {
  std::string program;          ///< the report's name, "softmax"
  std::string ladder, name;     ///< "softmax, Float, 8192 x 8192", "rung 3"
  std::string caches;           ///< "cold" or "hot"
  std::vector<double> seconds;  ///< of a launch, a value for each round
  double bytes = 0, flops = 0;  ///< that a launch needs; 0: not stated
  std::vector<double> of_copy;  ///< speed over that of the ladder's copy, round by round; empty for the copy itself
  std::string gpu, commit;      ///< as the driver calls it; of the program
  std::string label() const { return program + ": " + ladder + ", " + name + ", " + caches; }
};

/// Speed over another contestant's of the same run, round by round.
std::vector<double> speeds_over(const KernelRow& row, const KernelRow& other);

/// Whether the text is a benchmark's report and no result.
bool is_bench_report(const std::string& text);

/// The timed rows of a report; none where it ran without a GPU, which times nothing. Throws FileError on a damaged one.
std::vector<KernelRow> read_kernel_rows(const std::filesystem::path& file);

struct ComparedKernel {
  KernelRow a, b;
  Interval speed;  ///< B over A, as independent_ratio()
};
struct ComparedKernels {
  std::vector<ComparedKernel> rows;
  std::vector<RefusedRow> refused;
};

/// Joins rows by program, ladder (which names operation, type and sizes), contestant and caches. A row that occurs
/// twice on one side, or whose launch needs other bytes or FLOPs there, is refused.
ComparedKernels compare_kernels(const std::vector<KernelRow>& a, const std::vector<KernelRow>& b);

/// What a row reaches: the larger share of the maker's bytes/s and FLOP/s, "DRAM 87 %", "fp32 61 %"; where the card has
/// no known figure the share of the ladder's copy, "0.92 of copy"; else empty.
std::string share_of_ceiling(const KernelRow& row);

Cells kernel_cells(const std::vector<ComparedKernel>& rows, const Sides& sides);

}  // namespace tenfold
