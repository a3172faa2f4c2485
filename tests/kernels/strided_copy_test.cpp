#include "kernels/strided_copy/strided_copy.h"

#include <stdexcept>

#include "kernel_device.h"

namespace tenfold::test {
namespace {

using StridedCopy = KernelTest;

TEST_F(StridedCopy, EveryElementComesFromItsPlace) {
  for (const auto& [count, stride, offset] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 0}, {5, 123, 3}, {1000, 3, 1}, {257, 8, 7}, {4096, 1, 0}}) {
    const auto values = normal_values(offset + count * stride, 1);
    const auto in = copied(values);
    const auto out = poisoned<float>(count);
    kernels::strided_copy(stream(), out.data(), in.data(), count, stride, offset);
    expect_clean();
    const auto result = out.host();
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(result[static_cast<size_t>(i)], values[static_cast<size_t>(offset + i * stride)]) << "element " << i;
    }
  }
}

TEST_F(StridedCopy, RefusesWhatIsNoCopy) {
  const auto out = poisoned<float>(1);
  for (const auto& [count, stride, offset] : std::vector<std::array<int64_t, 3>>{{0, 1, 0}, {1, 0, 0}, {1, 1, -1}})
    EXPECT_THROW(kernels::strided_copy(stream(), out.data(), out.data(), count, stride, offset), std::invalid_argument);
}

#ifdef TENFOLD_COUNTED
TEST_F(StridedCopy, SectorsGrowWithTheStrideAndStop) {
  // By hand: 32 floats with stride s span 128 s bytes, so min(4 s, 32) sectors; shifted by one float, one sector more.
  for (const auto& [stride, offset, sectors] :
       std::vector<std::array<int64_t, 3>>{{1, 0, 4}, {1, 1, 5}, {2, 0, 8}, {4, 0, 16}, {8, 0, 32}, {32, 0, 32}}) {
    device_.reset();
    const auto in = copied(normal_values(256 * stride + offset, 1));
    const auto out = poisoned<float>(256);
    kernels::strided_copy(stream(), out.data(), in.data(), 256, stride, offset);
    const auto report = device_.report();
    ASSERT_EQ(report.accesses.size(), 2U);
    for (const simt::Access& access : report.accesses) {
      EXPECT_EQ(access.requests, 8);
      EXPECT_EQ(access.sectors_per_request(), access.kind == simt::Kind::store ? 4 : sectors) << "stride " << stride;
    }
  }
}
#endif

}  // namespace
}  // namespace tenfold::test
