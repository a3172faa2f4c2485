#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr float kRate = 0.1F, kBeta = 0.9F;

/// The sizes of the tensors of a step.
const std::vector<std::vector<int>> kSteps = {{1},
                                              {5, 123, 1000, 31},
                                              {256, 257, 255, 1, 512},
                                              {300, 0, 7},  // a tensor without values is no error
                                              {3000, 64, 64, 2048, 1},
                                              {4096, 4096},
                                              std::vector<int>(static_cast<size_t>(kMostTensors), 33)};

/// Runs the answer under the microscope on tensors of these sizes, with random normal values, and looks at every
/// result.
simt::Report run(const std::vector<int>& counts) {
  simt::Device device;
  std::mt19937 bits(45);
  std::normal_distribution<float> normal;
  std::vector<simt::Buffer<float>> buffers;
  std::vector<std::vector<float>> before;
  std::vector<MomentumTensor> tensors;
  for (const int count : counts) {
    for (const char* name : {"parameter", "momentum", "gradient"}) {
      buffers.push_back(device.buffer<float>(name, count));
      for (float& value : buffers.back()) value = normal(bits);
      before.emplace_back(buffers.back().begin(), buffers.back().end());
    }
    const size_t first = buffers.size() - 3;
    tensors.push_back({buffers[first].data(), buffers[first + 1].data(), buffers[first + 2].data(), count});
  }
  momentum_step(&device, tensors, kRate, kBeta);
  for (size_t t = 0; t < counts.size(); ++t) {
    for (int i = 0; i < counts[t]; ++i) {
      const auto at = static_cast<size_t>(i);
      const double momentum = double{kBeta} * before[3 * t + 1][at] + before[3 * t + 2][at];
      const double parameter = before[3 * t][at] - double{kRate} * momentum;
      const float found_momentum = buffers[3 * t + 1][i], found = buffers[3 * t][i];
      const bool right = std::abs(found_momentum - momentum) <= 1e-6 * (1 + std::abs(momentum)) &&
                         std::abs(found - parameter) <= 1e-6 * (1 + std::abs(parameter));
      EXPECT_TRUE(right) << "hint: tensor " << t << " of " << counts.size() << ", value " << i << " of " << counts[t]
                         << ": momentum " << found_momentum << " and parameter " << found << " where " << momentum
                         << " and " << parameter << " are right: does each block find its tensor, and its place in it?";
      if (!right) return device.report();
    }
  }
  return device.report();
}

TEST(Exercise45, EveryValueIsRight) {
  for (const auto& counts : kSteps) run(counts);
}

TEST(Exercise45, OneLaunchDoesThemAll) {
  EXPECT_EQ(run({3000, 64, 64, 2048, 1}).launches, 1)
      << "hint: the list of tensors can be a parameter of the kernel, by value";
}

TEST(Exercise45, NothingIsReadTwice) {
  const int count = 4096;
  const simt::Report report = run({count, count});
  // Three values in and two out.
  const double bytes = 32.0 * static_cast<double>(report.sectors()) / (2.0 * count);
  EXPECT_LE(bytes, 5 * sizeof(float))
      << "hint: bytes moved per value: which of your loads reads what a register held before?";
}

TEST(Exercise45, NothingRacesOrFaults) {
  for (const auto& counts : kSteps) {
    test::expect_clean(run(counts), "may two blocks have the same values?");
    if (HasFailure()) return;
  }
}

}  // namespace
