// 16-bit matrix products: every rung against float64 over awkward shapes in both types and, under the microscope, what
// each rung is there for.
#include "kernels/hgemm/hgemm.h"

#include <array>

#include "kernels/hgemm/hgemm_reference.h"
#include "row_kernel.h"
#include "rungs.h"

namespace tenfold::test {
namespace {

using kernels::hgemm;
using kernels::kHgemmAllRungs;
using kernels::kHgemmRungs;

struct Size {
  int64_t m, n, k;
};

// One element; primes; tiles and one more and less; a pipeline that is longer, as long and shorter than its product;
// packets and not.
constexpr std::array<Size, 12> kSizes{{{1, 1, 1},
                                       {5, 123, 7},
                                       {31, 33, 65},
                                       {128, 256, 64},
                                       {129, 257, 131},
                                       {127, 255, 33},
                                       {64, 264, 200},
                                       {136, 8, 8},
                                       {1, 264, 24},
                                       {264, 1, 96},
                                       {6, 129, 8},
                                       {16, 136, 1000}}};

std::string text_of(Size size) {
  return std::to_string(size.m) + " x " + std::to_string(size.n) + " x " + std::to_string(size.k);
}

template <class T>
class Hgemm : public KernelTest {
 protected:
  void expect_product(Size size, const std::vector<float>& a_values, const std::vector<float>& b_values, int rung) {
    const auto [m, n, k] = size;
    const Values<T> a(a_values), b(b_values);
    const auto a_there = this->copied(a.given, "a"), b_there = this->copied(b.given, "b");
    const auto c = this->template poisoned<T>(m * n, "c");
    hgemm(this->stream(), c.data(), a_there.data(), b_there.data(), m, n, k, rung);
    this->expect_clean();
    const auto expected = kernels::hgemm_reference(a.wide, b.wide, m, n, k, rounding_of<T>());
    EXPECT_LE(kernels::worst_error(c.host(), expected), 1) << text_of(size) << ", rung " << rung;
  }
};
using HgemmTypes = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(Hgemm, HgemmTypes);

TYPED_TEST(Hgemm, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < hgemm_rungs<TypeParam>(); ++rung) {
    for (const Size size : kSizes)
      this->expect_product(size, normal_values(size.m * size.k, 1), normal_values(size.k * size.n, 2), rung);
  }
  skip_missing_rungs(hgemm_rungs<TypeParam>(), kHgemmRungs);
}

// Sums of thousands that end near 0, and a sum beyond what 11 bits hold: float32 must hold them until the end.
TYPED_TEST(Hgemm, SumsAreFloat32) {
  constexpr Size kSize{3, 8, 2304};
  std::vector<float> a(kSize.m * kSize.k, 1), b(kSize.k * kSize.n, 1);
  for (size_t i = 0; i < a.size(); i += 2) a[i] = -1;
  a[1] = 0.5F;
  for (int rung = 0; rung < hgemm_rungs<TypeParam>(); ++rung) {
    this->expect_product(kSize, a, b, rung);
    this->expect_product(kSize, std::vector<float>(a.size(), 1), b, rung);
  }
  skip_missing_rungs(hgemm_rungs<TypeParam>(), kHgemmRungs);
}

// Views into larger tensors begin anywhere: packets must give way, and what lies around C must stay.
TYPED_TEST(Hgemm, TakesPointersThatAreNotAlignedAndStaysInsideC) {
  constexpr Size kSize{72, 136, 40};
  for (int rung = 0; rung < hgemm_rungs<TypeParam>(); ++rung) {
    for (int shifted = 0; shifted < 3; ++shifted) {
      SCOPED_TRACE("rung " + std::to_string(rung) + ", shifted by one element: " + "abc"[shifted]);
      const int a_shift = shifted == 0, b_shift = shifted == 1, c_shift = shifted == 2;
      const Values<TypeParam> a(normal_values(kSize.m * kSize.k + a_shift, 7)),
          b(normal_values(kSize.k * kSize.n + b_shift, 8));
      const auto a_there = this->copied(a.given, "a"), b_there = this->copied(b.given, "b");
      constexpr int64_t kBehind = 4 * kSize.n;
      const auto c = this->template poisoned<TypeParam>(c_shift + kSize.m * kSize.n + kBehind, "c");
      hgemm(this->stream(), c.data() + c_shift, a_there.data() + a_shift, b_there.data() + b_shift, kSize.m, kSize.n,
            kSize.k, rung);
      this->expect_clean();
      const auto host = c.host();
      const std::vector<TypeParam> result(host.begin() + c_shift, host.end() - kBehind);
      const auto expected =
          kernels::hgemm_reference({a.wide.begin() + a_shift, a.wide.end()}, {b.wide.begin() + b_shift, b.wide.end()},
                                   kSize.m, kSize.n, kSize.k, rounding_of<TypeParam>());
      EXPECT_LE(kernels::worst_error(result, expected), 1);
      const auto after = widened(host);
      for (int i = 0; i < c_shift; ++i) EXPECT_TRUE(std::isnan(after[static_cast<size_t>(i)])) << "before C";
      for (size_t i = after.size() - kBehind; i < after.size(); ++i) ASSERT_TRUE(std::isnan(after[i])) << "behind C";
    }
  }
  skip_missing_rungs(hgemm_rungs<TypeParam>(), kHgemmRungs);
}

TYPED_TEST(Hgemm, WithoutARungTheFastestOneRuns) {
  constexpr Size kSize{72, 136, 40};
  this->expect_product(kSize, normal_values(kSize.m * kSize.k, 5), normal_values(kSize.k * kSize.n, 6),
                       kernels::kHgemmFastest);
}

TYPED_TEST(Hgemm, SizesAndRungsThatCannotBeAreRefused) {
  const auto c = this->template poisoned<TypeParam>(1, "c");
  const auto call = [&](int64_t m, int64_t n, int64_t k, int rung) {
    hgemm(this->stream(), c.data(), c.data(), c.data(), m, n, k, rung);
  };
  EXPECT_THROW(call(0, 1, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, -1, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 0, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, (int64_t{1} << 30) + 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 1, -2), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 1, kHgemmAllRungs), std::invalid_argument);
  try {
    call(1, 0, 1, 0);
    FAIL() << "n = 0 was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "hgemm: n = 0 is not in 1 .. 2^30");
  }
  EXPECT_TRUE(std::isnan(widened(c.host())[0])) << "something ran";
}

#ifdef TENFOLD_TEST_ON_GPU

TYPED_TEST(Hgemm, HoppersRungsMatchFloat64) {
  if (kernels::hgemm_rungs_here<TypeParam>() <= kHgemmRungs) GTEST_SKIP() << kernels::reason_not_here();
  // More tiles than multiprocessors, and more steps than stages.
  constexpr Size kLarge{2176, 4104, 520};
  for (int rung = kHgemmRungs; rung < kHgemmAllRungs; ++rung) {
    for (const Size size : kSizes)
      this->expect_product(size, normal_values(size.m * size.k, 1), normal_values(size.k * size.n, 2), rung);
    this->expect_product(kLarge, normal_values(kLarge.m * kLarge.k, 3), normal_values(kLarge.k * kLarge.n, 4), rung);
  }
}

TYPED_TEST(Hgemm, MoreResultsThanAnIntCounts) {
  constexpr Size kSize{46'344, 46'352, 8};
  constexpr int64_t kResults = kSize.m * kSize.n;
  static_assert(kResults > int64_t{1} << 31);
  if (!this->has_bytes((kResults + 2 * kSize.n * kSize.k) * 2)) GTEST_SKIP() << "needs 8 GiB of free memory";
  const auto a = this->template zeros<TypeParam>(kSize.m * kSize.k),
             b = this->template zeros<TypeParam>(kSize.k * kSize.n), c = this->template poisoned<TypeParam>(kResults);
  a.put((kSize.m - 1) * kSize.k, TypeParam(2.0F));
  b.put(kSize.n - 1, TypeParam(3.0F));
  const int rungs = kernels::hgemm_rungs_here<TypeParam>();
  for (int rung = 0; rung < rungs; ++rung) {
    DeviceValues<TypeParam>::ok(cudaMemset(c.data(), 0xff, c.bytes()));
    hgemm(this->stream(), c.data(), a.data(), b.data(), kSize.m, kSize.n, kSize.k, rung);
    this->expect_clean();
    const auto at = [&](int64_t i) { return static_cast<float>(c.get(i)); };
    EXPECT_EQ(at(kResults - 1), 6.0F) << "rung " << rung;
    EXPECT_EQ(at(kResults - 2), 0.0F) << "rung " << rung;
    EXPECT_EQ(at(0), 0.0F) << "rung " << rung;
  }
  skip_missing_rungs(rungs, kHgemmRungs);
}

#else

// Blocks that walk over several tiles with more steps than stages, so that every barrier is used again and again.
TYPED_TEST(Hgemm, PersistentBlocksWalkOverTheirTiles) {
  constexpr Size kSize{300, 520, 328};  // nine tiles, of six steps; six of a cluster, two with a block that has no rows
  for (const auto& [rung, multiprocessors, blocks] :
       std::vector<std::array<int, 3> >{{7, 1, 1}, {7, 2, 2}, {8, 1, 2}, {8, 5, 4}, {9, 1, 2}, {9, 5, 4}}) {
    SCOPED_TRACE("rung " + std::to_string(rung) + ", " + std::to_string(multiprocessors) + " multiprocessors");
    simt::Device device({.multiprocessors = multiprocessors});
    const auto a = device.buffer<TypeParam>("a", kSize.m * kSize.k),
               b = device.buffer<TypeParam>("b", kSize.k * kSize.n),
               c = device.buffer<TypeParam>("c", kSize.m * kSize.n);
    const Values<TypeParam> a_values(normal_values(a.size(), 9)), b_values(normal_values(b.size(), 10));
    std::ranges::copy(a_values.given, a.begin());
    std::ranges::copy(b_values.given, b.begin());
    hgemm(&device, c.data(), a.data(), b.data(), kSize.m, kSize.n, kSize.k, rung);
    const simt::Report report = device.report();
    EXPECT_EQ(report.blocks, blocks);
    for (const auto& race : report.races)
      ADD_FAILURE() << "race between " << simt::text_of(race.first) << " and " << simt::text_of(race.second);
    for (const auto& fault : report.faults) ADD_FAILURE() << simt::text_of(fault.where) << ": " << fault.text;
    const auto expected =
        kernels::hgemm_reference(a_values.wide, b_values.wide, kSize.m, kSize.n, kSize.k, rounding_of<TypeParam>());
    EXPECT_LE(kernels::worst_error(std::vector(c.begin(), c.end()), expected), 1);
  }
}

#endif

#ifdef TENFOLD_COUNTED

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

/// What a rung does in memory.
class HgemmUnderTheMicroscope : public KernelTest {
 protected:
  Report report_of(int rung, Size size) {
    using T = __nv_bfloat16;
    device_.reset();
    const auto a = copied(rounded<T>(normal_values(size.m * size.k, 1)), "a"),
               b = copied(rounded<T>(normal_values(size.k * size.n, 2)), "b");
    const auto c = poisoned<T>(size.m * size.n, "c");
    hgemm(stream(), c.data(), a.data(), b.data(), size.m, size.n, size.k, rung);
    expect_clean();
    return device_.report();
  }
  static int64_t loaded_bytes(const Report& report) {
    return sum(report, Space::global, Kind::load, "a").bytes_moved() +
           sum(report, Space::global, Kind::load, "b").bytes_moved();
  }
};

TEST_F(HgemmUnderTheMicroscope, every_multiply_add_behind_rung_0_is_on_tensor_cores) {
  constexpr Size kSize{256, 256, 64};  // whole tiles of a cluster, too
  EXPECT_EQ(report_of(0, kSize).tensor_flops, 0);
  for (int rung = 1; rung < kHgemmRungs; ++rung) {
    EXPECT_EQ(report_of(rung, kSize).tensor_flops, 2 * kSize.m * kSize.n * kSize.k) << "rung " << rung;
    EXPECT_EQ(report_of(rung, kSize).matrix_multiplies, kSize.m * kSize.n * kSize.k / 2048) << "rung " << rung;
  }
  for (int rung = kHgemmRungs; rung < kHgemmAllRungs; ++rung) {
    EXPECT_EQ(report_of(rung, kSize).tensor_flops, 2 * kSize.m * kSize.n * kSize.k) << "rung " << rung;
    EXPECT_EQ(report_of(rung, kSize).matrix_multiplies, kSize.m * kSize.n * kSize.k / (64 * 256 * 16));
  }
}

TEST_F(HgemmUnderTheMicroscope, a_tile_moves_each_value_once_for_as_many_uses_as_it_is_wide) {
  constexpr Size kSize{256, 512, 64};
  constexpr int64_t kUses = kSize.m * kSize.n * kSize.k, kBytes = 2;
  for (int rung = 0; rung < 4; ++rung)
    EXPECT_EQ(loaded_bytes(report_of(rung, kSize)), 2 * kUses * kBytes / 128) << "rung " << rung;
  for (int rung = 4; rung < 8; ++rung)
    EXPECT_EQ(loaded_bytes(report_of(rung, kSize)), kUses * kBytes / 128 + kUses * kBytes / 256) << "rung " << rung;
  for (int rung = 8; rung < kHgemmAllRungs; ++rung)
    EXPECT_EQ(loaded_bytes(report_of(rung, kSize)), 2 * kUses * kBytes / 256) << "rung " << rung << " shares B";
}

TEST_F(HgemmUnderTheMicroscope, ldmatrix_needs_fewer_requests_and_no_conflicts) {
  constexpr Size kSize{128, 256, 64};
  const auto shared_loads = [&](int rung) { return sum(report_of(rung, kSize), Space::shared, Kind::load); };
  constexpr int64_t kMmas = kSize.m * kSize.n * kSize.k / 2048;
  // For 16 mma: 4 fragments of A of 4 loads and 4 of B of 4 halves; then 4 ldmatrix for A and 2 for B; a larger tile 4
  // and 4 for 32.
  EXPECT_EQ(shared_loads(1).requests, kMmas / 16 * (4 * 4 + 4 * 4));
  EXPECT_EQ(shared_loads(2).requests, kMmas / 16 * (4 + 2));
  EXPECT_EQ(shared_loads(3).requests, kMmas / 16 * (4 + 2));
  EXPECT_EQ(shared_loads(4).requests, kMmas / 32 * (4 + 4));
  EXPECT_EQ(shared_loads(1).wavefronts, 4 * shared_loads(1).requests);
  for (int rung = 2; rung < kHgemmAllRungs; ++rung) {
    for (const Access& access : report_of(rung, kSize).accesses) {
      if (access.space == Space::global) continue;
      EXPECT_EQ(access.worst_ways, 1) << "rung " << rung << ", " << simt::text_of(access.where);
    }
    if (rung < kHgemmRungs) EXPECT_EQ(shared_loads(rung).wavefronts, 4 * shared_loads(rung).requests);
  }
}

TEST_F(HgemmUnderTheMicroscope, packets_of_16_bytes_where_the_shape_allows) {
  for (int rung = 1; rung < kHgemmRungs; ++rung) {
    for (const Access& access : report_of(rung, {128, 256, 64}).accesses) {
      if (access.space == Space::shared) continue;
      EXPECT_EQ(access.bytes, 16) << simt::text_of(access.where);
      EXPECT_EQ(access.sectors, 16 * access.requests) << simt::text_of(access.where);
    }
    for (const Size odd : {Size{128, 256, 60}, Size{128, 252, 64}}) {
      for (const Access& access : report_of(rung, odd).accesses) {
        if (access.space == Space::shared) continue;
        EXPECT_EQ(access.bytes, 2) << simt::text_of(access.where);
      }
    }
  }
}

TEST_F(HgemmUnderTheMicroscope, a_pipeline_needs_one_barrier_for_each_step) {
  constexpr Size kSize{128, 128, 256};
  EXPECT_EQ(report_of(1, kSize).barriers, 2 * 256 / 32);
  EXPECT_EQ(report_of(2, kSize).barriers, 2 * 256 / 32);
  EXPECT_EQ(report_of(3, kSize).barriers, 256 / 32);
  EXPECT_EQ(report_of(4, kSize).barriers, 1 + 256 / 32);
  EXPECT_EQ(report_of(5, kSize).barriers, 1 + 256 / 64);
  EXPECT_EQ(report_of(6, kSize).barriers, 1) << "what follows is the mbarriers'";
  EXPECT_EQ(report_of(7, kSize).barriers, 1);
  EXPECT_EQ(report_of(8, kSize).barriers, 0) << "there are two of a cluster";
  EXPECT_EQ(report_of(9, kSize).barriers, 0);
}

#endif

}  // namespace
}  // namespace tenfold::test
