#pragma once
// What hand counts of Hopper's rungs ask of a report: of boxes and of wgmma's operands.

#include "kernel_device.h"

namespace tenfold::test {

/// What moves so many bytes at once, a box or an operand, and which buffer's where it is named.
inline simt::Access moved(const simt::Report& report, simt::Space space, simt::Kind kind, int64_t bytes,
                          const std::string& buffer = "") {
  for (const simt::Access& access : report.accesses) {
    if (access.space == space && access.kind == kind && access.bytes == bytes &&
        (buffer.empty() || access.buffer == buffer))
      return access;
  }
  ADD_FAILURE() << "no " << name_of(space) << " " << name_of(kind) << " of " << bytes << " bytes";
  return {};
}

/// An operand of one product in shared memory: its bytes, and the wavefronts in which it is read.
struct Operand {
  int64_t bytes, wavefronts;
};

/// Each of `products` reads both operands once and without conflicts.
inline void expect_operands(const simt::Report& report, int64_t products, Operand a, Operand b) {
  EXPECT_EQ(report.matrix_multiplies, products);
  for (const Operand& operand : {a, b}) {
    const simt::Access access = moved(report, simt::Space::shared, simt::Kind::load, operand.bytes);
    EXPECT_EQ(access.requests, products);
    EXPECT_EQ(access.wavefronts, operand.wavefronts * products);
    EXPECT_EQ(access.worst_ways, 1);
  }
}

}  // namespace tenfold::test
