#include "kernels/repeated_fma/repeated_fma.h"

#include <cmath>
#include <stdexcept>

#include "kernel_device.h"

namespace tenfold::test {
namespace {

using RepeatedFma = KernelTest;
constexpr float kFactor = 0.875F, kSummand = 0.3F;

TEST_F(RepeatedFma, EveryElementIsTheFusedFormula) {
  for (const auto& [count, updates] :
       std::vector<std::array<int64_t, 2>>{{1, 1}, {5, 3}, {255, 8}, {256, 9}, {257, 17}, {1000, 64}}) {
    const auto values = normal_values(count, 1);
    const auto in = copied(values);
    const auto out = poisoned<float>(count);
    kernels::repeated_fma(stream(), out.data(), in.data(), count, updates, kFactor, kSummand);
    expect_clean();
    const auto result = out.host();
    for (size_t i = 0; i < values.size(); ++i) {
      float expected = values[i];
      for (int64_t update = 0; update < updates; ++update) expected = std::fma(expected, kFactor, kSummand);
      ASSERT_EQ(result[i], expected) << "element " << i << " of " << count << " after " << updates << " updates";
    }
  }
}

TEST_F(RepeatedFma, RefusesNothingToDo) {
  const auto out = poisoned<float>(1);
  for (const auto& [count, updates] : std::vector<std::array<int64_t, 2>>{{0, 1}, {-1, 1}, {1, 0}})
    EXPECT_THROW(kernels::repeated_fma(stream(), out.data(), out.data(), count, updates, kFactor, kSummand),
                 std::invalid_argument);
}

#ifdef TENFOLD_COUNTED
TEST_F(RepeatedFma, MoreUpdatesMoveNoMoreBytes) {
  for (const int64_t updates : {1, 10, 100}) {
    device_.reset();
    const auto in = copied(normal_values(1024, 1));
    const auto out = poisoned<float>(1024);
    kernels::repeated_fma(stream(), out.data(), in.data(), 1024, updates, kFactor, kSummand);
    const simt::Report report = device_.report();
    // By hand: 1024 floats are 128 sectors, loaded once and stored once.
    EXPECT_EQ(report.sectors(), 2 * 128) << updates << " updates";
  }
}
#endif

}  // namespace
}  // namespace tenfold::test
