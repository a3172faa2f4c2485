#pragma once
// The program behind `./tenfold kernel NAME`: runs a kernel's rungs under the microscope and shows what it saw.

#include "common/kernel_page/kernel_case.h"

#include <functional>
#include <vector>

namespace tenfold::simt {

/// What running a rung once came to.
struct PageRun {
  double worst_error = 0;  ///< largest abs(result - float64 reference) / (tolerance of that element); above 1 is wrong
  Work work = {};
};

/// Runs rung `rung` (from 0) with buffers of `device` and compares with a float64 reference. show() lets no size below
/// 1 through; for any other shape that cannot be, this throws std::invalid_argument with one line.
using PageBody = std::function<PageRun(Device& device, const Shape& shape, int rung)>;

/// The buffer's values, for a float64 reference.
template <class T>
std::vector<double> wide(const Buffer<T>& buffer) {
  std::vector<double> values;
  for (const T value : buffer) values.push_back(static_cast<double>(static_cast<float>(value)));
  return values;
}

/// The main() of a kernel's page. Flags: --rung N (all of them without), --shape rows=256,columns=300, --json FILE,
/// --pictures DIR, --no-races, --describe. Exit codes: 0; 1 a wrong result, a race or a fault; 2 bad usage.
///
/// The model of a kernel's time asks `PROGRAM counts PASS RUNG NAME=N,NAME=N [BLOCKS]` instead: how often each line
/// runs, as JSON. Sizes that are not named are the timed ones; with BLOCKS, at most so many blocks of each launch run,
/// evenly spaced over its grid.
int show(int argc, char** argv, const KernelCase& about, const PageBody& run);

}  // namespace tenfold::simt
