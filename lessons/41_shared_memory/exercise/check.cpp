#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include <algorithm>
#include <array>
#include <string>

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

enum class Values { all_equal, counting, scattered };
constexpr int kBlocks = 3;
constexpr int kWanted = 32;  // bins, whatever the answer calls them

struct Counted {
  simt::Report report;
  std::string wrong;  ///< the first bin that is; empty when all are right
};

/// Counts n values under the microscope, with the answer's kernel.
Counted count(int64_t n, Values kind) {
  simt::Device device;
  const auto values = device.buffer<int>("values", n), bins = device.buffer<int>("bins", kWanted);
  std::array<int, kWanted> expected{};
  uint32_t bits = 41;
  for (int64_t i = 0; i < n; ++i) {
    bits = bits * 1664525 + 1013904223;
    values[i] = kind == Values::all_equal ? 7 : static_cast<int>(kind == Values::counting ? i % kWanted : bits >> 27);
    ++expected[static_cast<size_t>(values[i])];
  }
  std::fill(bins.begin(), bins.end(), 0);
  kernels::launch(&device, dim3(kBlocks), dim3(kThreads), 0, histogram, bins.data(), values.data(), n);
  Counted counted{device.report(), ""};
  for (int bin = 0; bin < kWanted && counted.wrong.empty(); ++bin) {
    const int wanted = expected[static_cast<size_t>(bin)];
    if (bins[bin] != wanted)
      counted.wrong =
          "bin " + std::to_string(bin) + " holds " + std::to_string(bins[bin]) + ", not " + std::to_string(wanted);
  }
  return counted;
}

constexpr Values kKinds[] = {Values::all_equal, Values::counting, Values::scattered};
constexpr int64_t kCounts[] = {1, 31, 128, 1000, 4099};

TEST(Exercise41, EveryValueIsCounted) {
  for (const int64_t n : kCounts) {
    for (const Values kind : kKinds) {
      const std::string wrong = count(n, kind).wrong;
      ASSERT_EQ(wrong, "") << "of " << n << " values\nhint: had every thread counted when the sums were taken?";
    }
  }
}

TEST(Exercise41, NoBankConflictWhateverTheValues) {
  for (const Values kind : kKinds) {
    for (const simt::Access& access : count(1000, kind).report.accesses) {
      if (access.space != simt::Space::shared) continue;
      EXPECT_EQ(access.wavefronts, access.ideal_wavefronts)
          << "line " << access.where.line << "\nhint: up to " << access.worst_ways
          << " lanes want different words of the same bank";
    }
  }
}

TEST(Exercise41, NothingRacesOrFaults) {
  for (const int64_t n : kCounts) {
    for (const Values kind : kKinds) {
      test::expect_clean(count(n, kind).report,
                         "what must every thread wait for before it reads the others' counters?");
      if (HasFailure()) return;
    }
  }
}

TEST(Exercise41, TheCountingIsDoneInSharedMemory) {
  int64_t atomics = 0;
  for (const simt::Access& access : count(4099, Values::scattered).report.accesses) {
    if (access.space == simt::Space::global && access.kind == simt::Kind::atomic) atomics += access.lanes;
  }
  EXPECT_LE(atomics, kBlocks * kWanted) << "hint: a block adds each of its 32 sums to global memory once";
}

}  // namespace
