// The reduction ladder: each rung adds up every element once, and no worse than its order of additions allows.
#include "kernels/reduction/reduction.h"

#include <stdexcept>

#include "kernel_device.h"

namespace tenfold::test {
namespace {

using kernels::kReductionRungs;
using kernels::reduce_sum;
using kernels::ReductionWorkspace;

constexpr int64_t kSizes[] = {1, 2, 31, 32, 33, 1000, 4099, 65536, 100003};

class Reduction : public KernelTest {
 protected:
  /// A workspace ready for its first use, with nonsense where it may be.
  auto fresh_workspace() {
    ReductionWorkspace workspace;
    workspace.blocks_done = 0;
    std::fill(std::begin(workspace.partial), std::end(workspace.partial), std::nanf(""));
    return copied(std::vector<ReductionWorkspace>{workspace}, "workspace");
  }
  /// The sum of the values after the first `skip` of them.
  float sum_of(const std::vector<float>& values, int rung, int64_t skip = 0) {
    const auto in = copied(values);
    const auto out = poisoned<float>(1);
    const auto workspace = fresh_workspace();
    reduce_sum(stream(), out.data(), in.data() + skip, in.size() - skip, workspace.data(), rung);
    expect_clean();
    EXPECT_EQ(workspace.host()[0].blocks_done, 0U);
    return out.host()[0];
  }
};

/// 1, 2, ..., 13, 1, 2, ...: for up to 2^20 of them each sum of some is below 2^24, so that floats add without
/// rounding.
std::vector<float> small_integers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13 + 1);
  return values;
}

double float64_sum(const std::vector<float>& values, int64_t skip = 0) {
  double sum = 0;
  for (auto i = static_cast<size_t>(skip); i < values.size(); ++i) sum += values[i];
  return sum;
}

TEST_F(Reduction, EveryRungCountsEveryElementOnce) {
  for (int rung = 0; rung < kReductionRungs; ++rung) {
    for (const int64_t n : kSizes) {
      const auto values = small_integers(n);
      EXPECT_EQ(sum_of(values, rung), float64_sum(values)) << "rung " << rung << ", n " << n;
    }
  }
}

TEST_F(Reduction, RoundingErrorsStayBelowTheBoundOfTheRungsOrder) {
  for (int rung = 0; rung < kReductionRungs; ++rung) {
    for (const int64_t n : kSizes) {
      const auto values = normal_values(n, 41);
      EXPECT_NEAR(sum_of(values, rung), float64_sum(values), 4 * kernels::reduction_error(n, rung))
          << "rung " << rung << ", n " << n;
    }
  }
}

TEST_F(Reduction, NoRungHidesNaN) {
  auto values = normal_values(5000, 42);
  values[4321] = std::nanf("");
  for (int rung = 0; rung < kReductionRungs; ++rung) EXPECT_TRUE(std::isnan(sum_of(values, rung))) << "rung " << rung;
}

TEST_F(Reduction, WideLoadsTakeAnyAlignment) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 4097}) {
    for (int64_t skip = 0; skip < 4; ++skip) {
      const auto values = small_integers(n + skip);
      EXPECT_EQ(sum_of(values, kReductionRungs - 1, skip), float64_sum(values, skip)) << "n " << n << ", skip " << skip;
    }
  }
}

TEST_F(Reduction, TheLastBlockGivesTheSameBitsEachTimeWithOneWorkspace) {
  const auto in = copied(normal_values(100003, 43));
  const auto workspace = fresh_workspace();
  const auto sum = [&](int64_t n) {
    const auto out = poisoned<float>(1);
    reduce_sum(stream(), out.data(), in.data(), n, workspace.data());  // the last rung
    return out.host()[0];
  };
  const float first = sum(in.size());
  ASSERT_FALSE(std::isnan(first));
  for (int run = 0; run < 3; ++run) {
    EXPECT_FALSE(std::isnan(sum(4099))) << "a sum of fewer blocks in between";
    EXPECT_EQ(sum(in.size()), first);
  }
  expect_clean();
}

TEST_F(Reduction, TheGridAndTheBoundDependOnTheSizeAlone) {
  EXPECT_EQ(kernels::reduction_blocks(1, 0), 1);
  EXPECT_EQ(kernels::reduction_blocks(65536, 2), 256);
  EXPECT_EQ(kernels::reduction_blocks(65536, 3), 32);
  EXPECT_EQ(kernels::reduction_blocks(65536, 5), 16);
  EXPECT_EQ(kernels::reduction_blocks(int64_t{1} << 40, 5), kernels::kReductionMaxBlocks);
  EXPECT_EQ(kernels::reduction_depth(65536, 0), 65536);
  EXPECT_EQ(kernels::reduction_depth(65536, 1), 1 + 8 + 256);
  EXPECT_EQ(kernels::reduction_depth(65536, 4), 8 + 8 + 32);
  EXPECT_EQ(kernels::reduction_depth(65536, 5), 4 + 4 + 8 + 1 + 8);
}

TEST_F(Reduction, RefusesWhatCannotBe) {
  const auto in = copied(std::vector<float>{1});
  const auto out = poisoned<float>(1);
  const auto workspace = fresh_workspace();
  EXPECT_THROW(reduce_sum(stream(), out.data(), in.data(), 0, workspace.data()), std::invalid_argument);
  EXPECT_THROW(reduce_sum(stream(), out.data(), in.data(), int64_t{1} << 40, workspace.data()), std::invalid_argument);
  EXPECT_THROW(reduce_sum(stream(), out.data(), in.data(), 1, workspace.data(), -1), std::invalid_argument);
  EXPECT_THROW(reduce_sum(stream(), out.data(), in.data(), 1, workspace.data(), kReductionRungs),
               std::invalid_argument);
  EXPECT_THROW(reduce_sum(stream(), out.data(), in.data(), 1, nullptr), std::invalid_argument);
  EXPECT_TRUE(std::isnan(out.host()[0]));
  reduce_sum(stream(), out.data(), in.data(), 1, nullptr, 4);  // which needs none
  expect_clean();
  EXPECT_EQ(out.host()[0], 1);
}

#ifdef TENFOLD_TEST_ON_GPU

TEST_F(Reduction, ManyElements) {
  const auto values = normal_values((int64_t{1} << 25) + 3, 44);
  const auto n = static_cast<int64_t>(values.size());
  for (int rung = 0; rung < kReductionRungs; ++rung) {
    EXPECT_NEAR(sum_of(values, rung), float64_sum(values), 4 * kernels::reduction_error(n, rung)) << "rung " << rung;
  }
}

#endif
#ifdef TENFOLD_COUNTED

TEST_F(Reduction, TheMicroscopeSeesWhatEachRungIsAbout) {
  using simt::Kind;
  using simt::Space;
  constexpr int64_t kN = 65536, kWarps = 8;
  const auto values = normal_values(kN, 45);
  simt::Report seen[kReductionRungs];
  for (int rung = 0; rung < kReductionRungs; ++rung) {
    device_.reset();
    sum_of(values, rung);
    seen[rung] = device_.report();
    EXPECT_EQ(seen[rung].launches, rung == 5 ? 1 : 2) << "rung " << rung;  // the others set the result to 0 first
    EXPECT_GE(seen[rung].unique_bytes_read, kN * 4) << "rung " << rung;
  }

  // Atomics: one per element, per block, and in rung 5 per block to count it.
  EXPECT_EQ(total(seen[0], Space::global, Kind::atomic).lanes, kN);
  EXPECT_EQ(total(seen[0], Space::global, Kind::atomic).requests, kN / 32);
  for (int rung = 1; rung < kReductionRungs; ++rung) {
    EXPECT_EQ(total(seen[rung], Space::global, Kind::atomic).lanes, kernels::reduction_blocks(kN, rung))
        << "rung " << rung;
  }

  // Shared memory: a block of the interleaved tree stores 8 times to begin, then in 5 * 8 + 4 + 2 + 1 requests; a block
  // of the sequential one in 4 + 2 + 6 * 1. The additions are the same, and so are the lanes. No bank conflict in
  // either.
  const auto interleaved = total(seen[1], Space::shared, Kind::store),
             sequential = total(seen[2], Space::shared, Kind::store);
  EXPECT_EQ(interleaved.requests, 256 * (kWarps + 47));
  EXPECT_EQ(sequential.requests, 256 * (kWarps + 12));
  EXPECT_EQ(interleaved.lanes, 256 * (256 + 255));
  EXPECT_EQ(sequential.lanes, interleaved.lanes);
  EXPECT_EQ(total(seen[1], Space::shared, Kind::load).worst_ways, 1);
  EXPECT_EQ(total(seen[2], Space::shared, Kind::load).worst_ways, 1);
  EXPECT_EQ(total(seen[3], Space::shared, Kind::store).requests, 32 * (kWarps + 12));
  EXPECT_EQ(total(seen[4], Space::shared, Kind::store).requests, 32 * kWarps);  // lane 0 of each warp

  // Barriers: one before the tree and one per level; one with shuffles.
  EXPECT_EQ(seen[2].barriers, 256 * 9);
  EXPECT_EQ(seen[3].barriers, 32 * 9);
  EXPECT_EQ(seen[4].barriers, 32);
  EXPECT_EQ(seen[4].warp_operations, 32 * (kWarps + 1) * 5);

  // Loads: 4 sectors per request of floats; 16 of float4, in a quarter of the requests.
  for (int rung = 0; rung < kReductionRungs; ++rung) {
    bool found = false;
    for (const simt::Access& access : seen[rung].accesses) {
      if (access.buffer != "in") continue;
      found = true;
      EXPECT_EQ(access.bytes, rung == 5 ? 16 : 4) << "rung " << rung;
      EXPECT_EQ(access.requests, kN / (rung == 5 ? 128 : 32)) << "rung " << rung;
      EXPECT_DOUBLE_EQ(access.sectors_per_request(), rung == 5 ? 16 : 4) << "rung " << rung;
    }
    EXPECT_TRUE(found) << "rung " << rung;
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
