// The recorded instruction counts belong to the kernel as it is now.
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/machine/gpu_ceilings.h"
#include "common/result/result.h"
#include "kernels/fast_math/sass_instructions.h"

#include <map>
#include <utility>

#include "tests/support/support.h"

namespace tenfold {
namespace {

using kernels::MathFunction;

TEST(SassInstructions, AreOfTheKernelAsItIs) {
  EXPECT_EQ(kSassOfSource, sha256(read_text(test::source_folder() / "kernels/fast_math/fast_math.cuh")))
      << "the kernel has changed: run common/tools/sass_instructions.py";
}

TEST(SassInstructions, NameEveryKernelOnEveryArchitectureOnce) {
  std::map<int, int> of_architecture;
  std::map<std::pair<int, std::pair<int, MathFunction>>, int> of_kernel;
  for (const SassInstructions& one : kSassInstructions) {
    ++of_architecture[one.architecture];
    EXPECT_EQ((++of_kernel[{one.architecture, {one.rung, one.function}}]), 1);
    EXPECT_GT(one.again, 0);
    EXPECT_GT(one.first, one.again);
    EXPECT_LE(one.special, one.first);
    EXPECT_LE(one.special_again, one.again);
  }
  for (const auto& [architecture, count] : of_architecture)
    EXPECT_EQ(count, 2 * kernels::kMathFunctions) << architecture;
  EXPECT_TRUE(of_architecture.contains(90)) << "the lesson notes an H100's";
}

/// The counts of a kernel by `rung`, less those of copying: what the function itself takes.
int of_function(int architecture, MathFunction function, int rung) {
  int own = 0, copy = 0;
  for (const SassInstructions& one : kSassInstructions) {
    if (one.architecture != architecture || one.rung != rung) continue;
    if (one.function == function) own = one.first;
    if (one.function == MathFunction::copy) copy = one.first;
  }
  return own - copy;
}

TEST(SassInstructions, IntrinsicsTakeFewer) {
  for (const int architecture : {75, 80, 90, 100}) {
    for (int i = 1; i < kernels::kMathFunctions; ++i) {
      const auto function = static_cast<MathFunction>(i);
      EXPECT_LT(of_function(architecture, function, 1), of_function(architecture, function, 0))
          << architecture << ", function " << i;
    }
    EXPECT_EQ(of_function(architecture, MathFunction::copy, 0), of_function(architecture, MathFunction::copy, 1));
    EXPECT_EQ(of_function(architecture, MathFunction::sine, 1), 2) << "a product, and the sine instruction";
  }
  EXPECT_EQ(of_function(90, MathFunction::sine, 0), 27) << "the lesson's page says so";
}

TEST(SassInstructions,
     TheCountByHand) {  // of the page: how many instructions an element may take until they are the limit
  const simt::GpuCeilings& gpu = simt::gpu_named("H100");
  EXPECT_NEAR(128 * gpu.sms * gpu.clock_hz / (gpu.dram_bytes_per_s / 8), 80, 0.5);
  for (const SassInstructions& one : kSassInstructions)
    EXPECT_LT(one.first, 80) << "elementwise, memory is the limit of all of them";
}

}  // namespace
}  // namespace tenfold
