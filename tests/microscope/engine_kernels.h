#pragma once
// Small kernels that ask the microscope's engine one question each; they lie in a shared library of their own, as the
// real kernels do.
#include <array>
#include <cstdint>
#include <string_view>

#include "common/microscope/device.h"

namespace tenfold::test {

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1}, block{32, 1, 1};
  size_t shared_bytes = 0;
  uint32_t cluster = 1;  ///< blocks of one
};

/// Runs the kernel of built_ins.cuh, counts.cuh, faults.cuh, ptx_kernels.cuh, hopper_kernels.cuh, cluster_kernels.cuh,
/// attention_kernels.cuh or eight_bit_kernels.cuh that is called `name`; what it does with out, in and n stands there.
/// Throws std::invalid_argument for an unknown name, and what the launch throws.
void run_kernel(simt::Stream stream, std::string_view name, const Launch& launch, void* out, const void* in = nullptr,
                int64_t n = 0);

}  // namespace tenfold::test
