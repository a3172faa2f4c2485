#pragma once
// What the microscope saw, as tables for a terminal and as JSON.

#include "common/kernel_page/kernel_page.h"

#include <string>
#include <vector>

namespace tenfold::simt {

inline constexpr const char* kMicroscopeSchema = "tenfold.microscope/1";

/// One rung that was run.
struct RungResult {
  int rung = 0;  ///< index in KernelCase::rungs
  PageRun run;
  Report report;

  bool right() const { return run.worst_error <= 1; }  ///< NaN is wrong
  bool good() const { return right() && report.clean(); }
};

/// The line in its file, without the spaces around it; empty when it cannot be read. A relative file is looked for
/// below $TENFOLD_SOURCE_DIR, and without that below the current folder.
std::string source_line(const Where& where);

/// Sectors that the mean request would need if its lanes stood side by side: the least without sharing an address.
double ideal_sectors_per_request(const Access& access);

/// Everything about one rung, at most 120 columns wide.
std::string format_rung(const KernelCase& page, const Shape& shape, const RungResult& result);

/// One line for each rung, so that the ladder reads as a table; races and faults below it.
std::string format_ladder(const KernelCase& page, const Shape& shape, const std::vector<RungResult>& results);

/// {schema, kernel, title, shape{}, rungs[{rung, name, idea, result, worst_error, flops, least_bytes,
/// report{}}]}. An infinity or NaN is null. The microscope's own seconds are left out: the same source gives the same
/// file.
std::string format_json(const KernelCase& page, const Shape& shape, const std::vector<RungResult>& results);

/// {kernel, title, shape{}, rungs[{name, idea}], passes[{name, rungs[], type, shape{}, flops, least_bytes, peak,
/// sampled_blocks}]}: what is known of the kernel, without running it. The work of a pass is that at its shape, `peak`
/// the rate of a GPU that bounds it.
std::string format_description(const KernelCase& page);

}  // namespace tenfold::simt
