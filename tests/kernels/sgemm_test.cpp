// SGEMM: every rung against float64 over awkward shapes, what BLAS promises about alpha and beta, and, under the
// microscope, what each rung is there for.
#include "kernels/sgemm/sgemm.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel_device.h"

namespace {

using tenfold::kernels::kSgemmRungs;
using tenfold::kernels::sgemm;
using tenfold::test::normal_values;

struct Size {
  int64_t m, n, k;
};

constexpr std::array<Size, 10> kSizes{{{1, 1, 1},
                                       {5, 123, 7},
                                       {31, 33, 65},
                                       {128, 128, 128},
                                       {129, 127, 131},
                                       {64, 256, 40},
                                       {132, 100, 4},
                                       {1, 260, 20},
                                       {6, 129, 8},
                                       {20, 132, 7}}};

/// Fails unless every element of `c` is alpha * a * b + beta * old within float32's bound: k products and their sums,
/// then alpha, beta and the last sum. `old` empty: C was not to be read. A NaN fails.
void expect_product(const std::vector<float>& c, const std::vector<float>& a, const std::vector<float>& b,
                    const std::vector<float>& old, Size size, double alpha, double beta) {
  const auto [m, n, k] = size;
  int64_t wrong = 0;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0, magnitude = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double product =
            static_cast<double>(a[static_cast<size_t>(row * k + i)]) * b[static_cast<size_t>(i * n + column)];
        sum += product;
        magnitude += std::abs(product);
      }
      const auto at = static_cast<size_t>(row * n + column);
      const double before = old.empty() ? 0 : old[at];
      const double expected = alpha * sum + beta * before;
      const double bound =
          static_cast<double>(k + 3) * 0x1p-24 * (std::abs(alpha) * magnitude + std::abs(beta * before));
      if (!(std::abs(c[at] - expected) <= bound) && ++wrong <= 3)
        ADD_FAILURE() << "c(" << row << ", " << column << ") = " << c[at] << ", expected " << expected << " +- "
                      << bound;
    }
  }
  EXPECT_EQ(wrong, 0) << "elements of " << m * n;
}

std::string text_of(Size size) {
  return std::to_string(size.m) + " x " + std::to_string(size.n) + " x " + std::to_string(size.k);
}

class SgemmTest : public tenfold::test::KernelTest, public testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Rungs, SgemmTest, testing::Range(0, kSgemmRungs));

TEST_P(SgemmTest, equals_float64_and_does_not_read_c_without_beta) {
  for (const Size size : kSizes) {
    SCOPED_TRACE(text_of(size));
    const auto a_values = normal_values(size.m * size.k, 1), b_values = normal_values(size.k * size.n, 2);
    const auto a = copied(a_values, "a"), b = copied(b_values, "b");
    const auto c = poisoned<float>(size.m * size.n, "c");
    sgemm(stream(), c.data(), a.data(), b.data(), size.m, size.n, size.k, 1, 0, GetParam());
    expect_clean();
    expect_product(c.host(), a_values, b_values, {}, size, 1, 0);
  }
}

TEST_P(SgemmTest, scales_by_alpha_and_adds_beta_c) {
  for (const Size size : kSizes) {
    SCOPED_TRACE(text_of(size));
    const auto a_values = normal_values(size.m * size.k, 3), b_values = normal_values(size.k * size.n, 4);
    const auto c_values = normal_values(size.m * size.n, 5);
    const auto a = copied(a_values, "a"), b = copied(b_values, "b"), c = copied(c_values, "c");
    sgemm(stream(), c.data(), a.data(), b.data(), size.m, size.n, size.k, 0.5F, -2, GetParam());
    expect_clean();
    expect_product(c.host(), a_values, b_values, c_values, size, 0.5, -2);
  }
}

TEST_P(SgemmTest, does_not_read_a_and_b_without_alpha) {
  constexpr Size kSize{33, 36, 16};
  const auto a = poisoned<float>(kSize.m * kSize.k, "a"), b = poisoned<float>(kSize.k * kSize.n, "b");
  const auto c_values = normal_values(kSize.m * kSize.n, 6);
  const auto c = copied(c_values, "c");
  sgemm(stream(), c.data(), a.data(), b.data(), kSize.m, kSize.n, kSize.k, 0, 3, GetParam());
  expect_clean();
  const auto result = c.host();
  for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 3 * c_values[i]) << i;
}

// Views into larger tensors begin anywhere: the vector loads must give way, and what lies around C must stay.
TEST_P(SgemmTest, takes_pointers_that_are_not_aligned_and_stays_inside_c) {
  constexpr Size kSize{68, 72, 12};
  for (int shifted = 0; shifted < 3; ++shifted) {
    SCOPED_TRACE(std::string("shifted by one float: ") + "abc"[shifted]);
    const int a_shift = shifted == 0, b_shift = shifted == 1, c_shift = shifted == 2;
    auto a_values = normal_values(kSize.m * kSize.k + a_shift, 7),
         b_values = normal_values(kSize.k * kSize.n + b_shift, 8);
    const auto a = copied(a_values, "a"), b = copied(b_values, "b");
    constexpr int64_t kBehind = 4 * kSize.n;
    const auto c = poisoned<float>(c_shift + kSize.m * kSize.n + kBehind, "c");
    sgemm(stream(), c.data() + c_shift, a.data() + a_shift, b.data() + b_shift, kSize.m, kSize.n, kSize.k, 1, 0,
          GetParam());
    expect_clean();
    a_values.erase(a_values.begin(), a_values.begin() + a_shift);
    b_values.erase(b_values.begin(), b_values.begin() + b_shift);
    const auto result = c.host();
    expect_product({result.begin() + c_shift, result.end() - kBehind}, a_values, b_values, {}, kSize, 1, 0);
    for (int i = 0; i < c_shift; ++i) EXPECT_TRUE(std::isnan(result[static_cast<size_t>(i)])) << "before C";
    for (size_t i = result.size() - kBehind; i < result.size(); ++i) ASSERT_TRUE(std::isnan(result[i])) << "behind C";
  }
}

using SgemmArguments = tenfold::test::KernelTest;

TEST_F(SgemmArguments, the_default_is_a_plain_product_by_the_last_rung) {
  const auto a_values = normal_values(6, 9), b_values = normal_values(6, 10);
  const auto a = copied(a_values, "a"), b = copied(b_values, "b");
  const auto c = poisoned<float>(4, "c");
  sgemm(stream(), c.data(), a.data(), b.data(), 2, 2, 3);
  expect_clean();
  expect_product(c.host(), a_values, b_values, {}, {2, 2, 3}, 1, 0);
}

TEST_F(SgemmArguments, sizes_and_rungs_that_cannot_be_are_refused) {
  const auto c = poisoned<float>(1, "c");
  const auto call = [&](int64_t m, int64_t n, int64_t k, int rung) {
    sgemm(stream(), c.data(), c.data(), c.data(), m, n, k, 1, 0, rung);
  };
  EXPECT_THROW(call(0, 1, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, -1, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 0, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, (int64_t{1} << 30) + 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 1, -1), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 1, kSgemmRungs), std::invalid_argument);
  try {
    call(1, 0, 1, 0);
    FAIL() << "n = 0 was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "sgemm: n = 0 is not in 1 .. 2^30");
  }
  EXPECT_TRUE(std::isnan(c.host()[0])) << "something ran";
}

#ifdef TENFOLD_COUNTED

using tenfold::simt::Access;
using tenfold::simt::Kind;
using tenfold::simt::Report;
using tenfold::simt::Space;
using tenfold::test::sum;

/// What a rung does in memory.
class SgemmUnderTheMicroscope : public tenfold::test::KernelTest {
 protected:
  Report report_of(int rung, Size size) {
    device_.reset();
    const auto a = copied(normal_values(size.m * size.k, 1), "a"), b = copied(normal_values(size.k * size.n, 2), "b");
    const auto c = poisoned<float>(size.m * size.n, "c");
    sgemm(stream(), c.data(), a.data(), b.data(), size.m, size.n, size.k, 1, 0, rung);
    expect_clean();
    return device_.report();
  }
  static void expect_width(const Report& report, int bytes) {
    for (const Access& access : report.accesses) {
      if (access.space != Space::global) continue;
      EXPECT_EQ(access.bytes, bytes) << tenfold::simt::text_of(access.where);
    }
  }
  static Access loads(const Report& report, const std::string& buffer) {
    return sum(report, Space::global, Kind::load, buffer);
  }
  static int64_t loaded_bytes(const Report& report) {
    return loads(report, "a").bytes_moved() + loads(report, "b").bytes_moved();
  }
};

TEST_F(SgemmUnderTheMicroscope, naive_lanes_lie_in_32_sectors_and_coalesced_lanes_in_4) {
  constexpr Size kSize{64, 64, 32};
  const Report naive = report_of(0, kSize), coalesced = report_of(1, kSize);
  EXPECT_EQ(loads(naive, "a").sectors_per_request(), 32);
  EXPECT_EQ(loads(naive, "b").sectors_per_request(), 1);
  EXPECT_EQ(sum(naive, Space::global, Kind::store, "c").sectors_per_request(), 32);
  EXPECT_EQ(loads(coalesced, "a").sectors_per_request(), 1);
  EXPECT_EQ(loads(coalesced, "b").sectors_per_request(), 4);
  EXPECT_EQ(sum(coalesced, Space::global, Kind::store, "c").sectors_per_request(), 4);
  EXPECT_EQ(loads(naive, "a").requests, loads(coalesced, "a").requests);
}

TEST_F(SgemmUnderTheMicroscope, a_tile_moves_each_value_once_for_as_many_uses_as_it_is_wide) {
  constexpr Size kSize{128, 256, 64};
  constexpr int64_t kUses = kSize.m * kSize.n * kSize.k;
  const auto tiled = [&](int64_t tile) { return 2 * kUses * 4 / tile; };  // bytes of A and of B
  // Naive and coalesced: for each value of k a warp needs 33 or 5 sectors.
  EXPECT_EQ(loaded_bytes(report_of(0, kSize)), kUses / 32 * 33 * 32);
  EXPECT_EQ(loaded_bytes(report_of(1, kSize)), kUses / 32 * 5 * 32);
  EXPECT_EQ(loaded_bytes(report_of(2, kSize)), tiled(32));
  EXPECT_EQ(loaded_bytes(report_of(3, kSize)), tiled(64));
  for (int rung = 4; rung < kSgemmRungs; ++rung)
    EXPECT_EQ(loaded_bytes(report_of(rung, kSize)), tiled(128)) << "rung " << rung;
}

TEST_F(SgemmUnderTheMicroscope, register_tiles_need_fewer_shared_loads_for_each_multiply_add) {
  constexpr Size kSize{128, 128, 32};
  constexpr double kWarpMultiplyAdds = 128 * 128 * 32 / 32.0;
  const auto shared_loads = [&](int rung) {
    return static_cast<double>(sum(report_of(rung, kSize), Space::shared, Kind::load, "").requests) / kWarpMultiplyAdds;
  };
  EXPECT_EQ(shared_loads(2), 2);
  EXPECT_EQ(shared_loads(3), 9.0 / 8);
  EXPECT_EQ(shared_loads(4), 16.0 / 64);
  for (int rung = 5; rung < kSgemmRungs; ++rung) EXPECT_EQ(shared_loads(rung), 4.0 / 64) << "rung " << rung;
}

TEST_F(SgemmUnderTheMicroscope, no_rung_has_a_bank_conflict) {
  for (int rung = 2; rung < kSgemmRungs; ++rung) {
    const Report report = report_of(rung, {128, 128, 32});
    for (const Access& access : report.accesses) {
      if (access.space != Space::shared) continue;
      EXPECT_EQ(access.wavefronts, access.ideal_wavefronts)
          << "rung " << rung << ", " << tenfold::simt::text_of(access.where);
    }
    EXPECT_EQ(sum(report, Space::shared, Kind::load, "").lanes,
              32 * sum(report, Space::shared, Kind::load, "").requests);
  }
}

TEST_F(SgemmUnderTheMicroscope, vectors_move_the_same_bytes_in_a_quarter_of_the_requests_where_the_shape_allows) {
  constexpr Size kSize{128, 128, 32};
  const Report scalar = report_of(4, kSize);
  for (int rung = 5; rung < kSgemmRungs; ++rung) {
    SCOPED_TRACE("rung " + std::to_string(rung));
    const Report vector = report_of(rung, kSize);
    for (const char* buffer : {"a", "b"})
      EXPECT_EQ(loads(vector, buffer).requests * 4, loads(scalar, buffer).requests) << buffer;
    EXPECT_EQ(sum(vector, Space::global, Kind::store, "c").requests * 4,
              sum(scalar, Space::global, Kind::store, "c").requests);
    expect_width(vector, 16);
    for (const Size odd : {Size{128, 128, 30}, Size{128, 126, 32}}) expect_width(report_of(rung, odd), 4);
  }
}

TEST_F(SgemmUnderTheMicroscope, a_double_buffer_halves_the_barriers_and_a_deeper_tile_halves_them_again) {
  constexpr Size kSize{128, 128, 64};
  EXPECT_EQ(report_of(5, kSize).barriers, 2 * 64 / 8);
  EXPECT_EQ(report_of(6, kSize).barriers, 64 / 8);
  EXPECT_EQ(report_of(7, kSize).barriers, 64 / 16);
}

#endif

}  // namespace
