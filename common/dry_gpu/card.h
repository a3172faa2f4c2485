#pragma once
// The cards that a dry GPU can be: what a program is told of them, and how much memory they have.

#include <cstdint>
#include <string>
#include <vector>

#include "common/machine/gpu_ceilings.h"

namespace tenfold::dry {

/// A card as LibTorch sees it through CUDA's runtime. What it can do at most stands in the kernels' table of ceilings.
struct Card {
  std::string key;           ///< "A100-40"
  std::string name;          ///< as the driver calls it: "NVIDIA A100-SXM4-40GB"
  int major = 0, minor = 0;  ///< compute capability
  int sms = 0;
  int most_threads = 0;      ///< that an SM holds
  int most_blocks = 0;       ///< that an SM holds
  int64_t shared_bytes = 0;  ///< of an SM
  int64_t l2_bytes = 0;
  int64_t memory_bytes =
      0;              ///< cudaDeviceProp::totalGlobalMem; what a context takes of it is not known and not taken off
  int bus_bits = 0;   ///< of its memory
  int clock_khz = 0;  ///< of the SMs, the highest
  int memory_clock_khz = 0;  ///< two transfers each
  int copy_engines = 0;

  /// Dynamic shared memory that a block can ask for: an SM's, less the 1 KiB of each block that CUDA keeps since 8.0
  /// ("CUDA C++ Programming Guide", Technical Specifications per Compute Capability).
  int64_t shared_bytes_of_block() const { return major >= 8 ? shared_bytes - 1024 : shared_bytes; }
};

const std::vector<Card>& cards();

/// Upper and lower case are the same. Throws std::invalid_argument, one line that lists the known ones.
const Card& card_named(const std::string& key);

}  // namespace tenfold::dry
