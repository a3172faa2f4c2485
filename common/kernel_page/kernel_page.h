#pragma once
// The program behind `./tenfold kernel NAME`: runs a kernel's rungs under the microscope and shows what it saw.

#include "common/microscope/device.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tenfold::simt {

using Shape = std::map<std::string, int64_t>;

/// One version of a kernel, in the order in which they are learnt.
struct Rung {
  std::string name;  ///< "tiled", two words at most
  std::string idea;  ///< what it adds to the one before, one sentence
};

/// What running a rung once came to.
struct PageRun {
  double worst_error = 0;   ///< largest abs(result - float64 reference) / (tolerance of that element); above 1 is wrong
  double flops = 0;         ///< arithmetic that the operation needs, by its formula
  int64_t least_bytes = 0;  ///< global memory traffic that the operation needs at the least: inputs once, outputs once
};

struct KernelPage {
  std::string name;  ///< the stem
  std::string title;
  std::vector<std::pair<std::string, int64_t>>
      shape;  ///< names and defaults; small enough for a second under the microscope
  std::vector<Rung> rungs;
  /// Runs rung `rung` (from 0) with buffers of `device` and compares with a float64 reference. show() lets no size
  /// below 1 through; for any other shape that cannot be, this throws std::invalid_argument with one line.
  std::function<PageRun(Device& device, const Shape& shape, int rung)> run;
};

/// Random normal values, the same each time for a seed, in all of these buffers, one after the other.
template <class T>
void fill_normal(uint32_t seed, std::initializer_list<Buffer<T>> buffers) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  for (const Buffer<T>& buffer : buffers)
    std::generate(buffer.begin(), buffer.end(), [&] { return static_cast<T>(normal(bits)); });
}

/// The buffer's values, for a float64 reference.
template <class T>
std::vector<double> wide(const Buffer<T>& buffer) {
  std::vector<double> values;
  for (const T value : buffer) values.push_back(static_cast<double>(static_cast<float>(value)));
  return values;
}

/// The main() of a kernel's page. Flags: --rung N (all of them without), --shape rows=256,columns=300, --json FILE,
/// --pictures DIR, --no-races, --describe. Exit codes: 0; 1 a wrong result, a race or a fault; 2 bad usage.
int show(int argc, char** argv, const KernelPage& page);

}  // namespace tenfold::simt
