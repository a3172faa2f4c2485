#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr int64_t kKeys[] = {1, 2, 31, 32, 33, 200};

/// Runs the answer under the microscope on random normal values, q times `scale`, and looks at every result.
simt::Report run(int64_t heads, int64_t keys, float scale = 1) {
  simt::Device device;
  const auto q = device.buffer<float>("q", heads * kWidth), out = device.buffer<float>("out", heads * kWidth);
  const auto k = device.buffer<float>("k", heads * keys * kWidth), v = device.buffer<float>("v", heads * keys * kWidth);
  const auto workspace = device.buffer<float>("workspace", heads * keys);
  std::mt19937 bits(46);
  std::normal_distribution<float> normal;
  for (const auto& given : {q, k, v}) {
    for (float& value : given) value = normal(bits);
  }
  for (float& value : q) value *= scale;
  attend(&device, out.data(), workspace.data(), q.data(), k.data(), v.data(), heads, keys);
  for (int64_t head = 0; head < heads; ++head) {
    std::vector<double> scores;
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t key = 0; key < keys; ++key) {
      double score = 0;
      for (int64_t d = 0; d < kWidth; ++d) score += double{q[head * kWidth + d]} * k[(head * keys + key) * kWidth + d];
      scores.push_back(score / std::sqrt(double{kWidth}));
      largest = std::max(largest, scores.back());
    }
    for (const double score : scores) total += std::exp(score - largest);
    for (int64_t d = 0; d < kWidth; ++d) {
      double expected = 0;
      for (int64_t key = 0; key < keys; ++key) {
        expected += std::exp(scores[static_cast<size_t>(key)] - largest) / total * v[(head * keys + key) * kWidth + d];
      }
      const float found = out[head * kWidth + d];
      const bool right = std::abs(found - expected) <= 1e-5 * (scale + std::abs(expected));
      EXPECT_TRUE(right) << "hint: head " << head << ", value " << d << " with " << keys << " keys and queries times "
                         << scale << ": " << found << " where " << expected
                         << " is right (nan: never written, or inf / inf)";
      if (!right) return device.report();
    }
  }
  return device.report();
}

TEST(Exercise46, EveryValueIsRight) {
  for (const int64_t keys : kKeys) run(3, keys);
}

TEST(Exercise46, LargeScoresDoNotOverflow) { run(4, 100, 100); }

TEST(Exercise46, KeysAndValuesAreReadOnceAndNothingElse) {
  constexpr int64_t kHeads = 2, kMany = 256;
  const simt::Report report = run(kHeads, kMany);
  // 2 * 32 floats for each key, and 2 * 32 for each head.
  EXPECT_LE(report.sectors() * 32, kHeads * (kMany + 1) * 2 * kWidth * static_cast<int64_t>(sizeof(float)))
      << "hint: bytes moved: what else goes to memory, and what comes back twice?";
  EXPECT_EQ(report.launches, 1) << "hint: registers do not outlive a kernel";
}

TEST(Exercise46, NothingRacesOrFaults) {
  for (const int64_t keys : kKeys) {
    test::expect_clean(run(3, keys), "what must a lane wait for before it reads what another wrote?");
    if (HasFailure()) return;
  }
}

}  // namespace
