#pragma once
// A GPU that fails for good costs one variant: the program starts again without it.

#include <string>

#include "common/measure/device.h"

namespace tenfold {

/// A GPU that failed for good while a variant ran.
struct LostIn : DeviceLost {
  LostIn(std::string part_name, std::string variant_name, const std::string& reason);

  std::string part, variant;
};

/// Why a variant does not run, since a GPU failed for good in it before this program was started again; empty
/// otherwise.
std::string lost_before(const std::string& part, const std::string& variant);

/// Replaces this process by one that leaves the variant out, with the same flags and --resume: cases that were finished
/// are not measured again. Returns only where that cannot be done.
void start_again_without(const LostIn& lost, char** argv);

}  // namespace tenfold
