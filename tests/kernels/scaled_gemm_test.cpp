// A product of 8-bit matrices with scales: every rung against float64 over awkward shapes, exactly where numbers allow
// it, and, under the microscope, what each rung asks of memory.
#include "kernels/scaled_gemm/scaled_gemm.h"

#include <array>
#include <random>

#include "kernels/scaled_gemm/scaled_gemm_reference.h"
#include "row_kernel.h"
#include "rungs.h"

#ifndef TENFOLD_TEST_ON_GPU
#include "kernels/scaled_gemm/scaled_gemm_case.h"
#endif

namespace tenfold::test {
namespace {

using kernels::EightBits;
using kernels::kScaledGemmAllRungs;
using kernels::kScaledGemmRungs;
using kernels::scaled_gemm;
using kernels::ScaledGemmScales;

constexpr std::array kBothScales{ScaledGemmScales::tensor, ScaledGemmScales::blocks};

struct Size {
  int64_t m, n, k;
};

// One element; primes; tiles and one more and less; blocks of k and one more and less; packets and not, also with an
// odd n; three blocks of columns by three of k.
constexpr std::array<Size, 9> kSizes{{{1, 1, 1},
                                      {5, 7, 48},
                                      {5, 123, 7},
                                      {129, 66, 33},
                                      {16, 128, 256},
                                      {3, 260, 272},
                                      {9, 2, 129},
                                      {33, 130, 127},
                                      {130, 68, 144}}};

std::string text_of(Size size, ScaledGemmScales scales, int rung) {
  return std::to_string(size.m) + " x " + std::to_string(size.n) + " x " + std::to_string(size.k) +
         (scales == ScaledGemmScales::tensor ? ", a scale each" : ", scales of blocks") + ", rung " +
         std::to_string(rung);
}

/// A and B, and what they stand for. Rows of A and columns of B differ in size by up to 64, so that no scale can take
/// another one's place.
template <class T>
struct Inputs {
  Inputs(Size size, ScaledGemmScales scales)
      : a(kernels::quantised_a<T>(values_of(size.m, size.k, 1), size.m, size.k, scales)),
        b(kernels::quantised_b<T>(values_of(size.n, size.k, 2), size.n, size.k, scales)),
        wide_a(kernels::dequantised_a(a, size.m, size.k, scales)),
        wide_b(kernels::dequantised_b(b, size.n, size.k, scales)) {}
  static std::vector<float> values_of(int64_t rows, int64_t k, uint64_t seed) {
    std::vector<float> values = normal_values(rows * k, seed);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < k; ++i)
        values[static_cast<size_t>(row * k + i)] *= static_cast<float>(1 << (row / 3 + row / 128 + i / 128 * 2) % 7);
    }
    return values;
  }
  EightBits<T> a, b;
  std::vector<double> wide_a, wide_b;
};

template <class T>
class ScaledGemm : public KernelTest {
 protected:
  std::vector<float> product_of(Size size, const EightBits<T>& a, const EightBits<T>& b, ScaledGemmScales scales,
                                int rung) {
    const auto a_codes = this->copied(a.codes, "a"), b_codes = this->copied(b.codes, "b");
    const auto a_scales = this->copied(a.scales, "a_scales"), b_scales = this->copied(b.scales, "b_scales");
    const auto c = this->template poisoned<float>(size.m * size.n, "c");
    scaled_gemm(this->stream(), c.data(), a_codes.data(), b_codes.data(), a_scales.data(), b_scales.data(), size.m,
                size.n, size.k, scales, rung);
    this->expect_clean();
    return c.host();
  }
};
using ScaledGemmTypes = testing::Types<int8_t, __nv_fp8_e4m3>;
TYPED_TEST_SUITE(ScaledGemm, ScaledGemmTypes);

/// What a sum of products is rounded to. fp8's tensor cores keep about 14 bits on Hopper.
template <class T>
double sum_unit([[maybe_unused]] int rung) {
#ifdef TENFOLD_TEST_ON_GPU
  if (!std::is_same_v<T, int8_t> && rung >= 2) return 0x1p-13;
#endif
  return kernels::kFloatRounding.unit;
}

// First, because tests/microscope/barriers.py runs this program once for every barrier that it takes out of these
// rungs.
class ScaledGemmOnHopper : public ScaledGemm<__nv_fp8_e4m3> {
 protected:
  using T = __nv_fp8_e4m3;
  void SetUp() override {
    ScaledGemm::SetUp();
    if (!IsSkipped()) skip_missing_rungs(scaled_gemm_rungs<T>(), kScaledGemmAllRungs<T>);
  }
  /// Under the microscope on as many multiprocessors, each of which has a block.
  std::vector<float> product_on([[maybe_unused]] int multiprocessors, Size size, const Inputs<T>& in,
                                ScaledGemmScales scales, int rung) {
#ifdef TENFOLD_TEST_ON_GPU
    return product_of(size, in.a, in.b, scales, rung);
#else
    simt::Device device({.multiprocessors = multiprocessors});
    const kernels::ScaledGemmBuffers<T> buffers{&device, size.m, size.n, size.k, scales};
    std::ranges::copy(in.a.codes, buffers.a.begin()), std::ranges::copy(in.a.scales, buffers.a_scales.begin());
    std::ranges::copy(in.b.codes, buffers.b.begin()), std::ranges::copy(in.b.scales, buffers.b_scales.begin());
    buffers.launch(rung);
    expect_clean(device.report());
    return {buffers.c.begin(), buffers.c.end()};
#endif
  }
};

// Tiles that reach over the edges of C, more blocks of k than stages, and an end within a block of k. Of 6 tiles of 9
// blocks of k, and of one, a block walks over all, or over one and over two: odd and even numbers of steps; of a
// cluster the last block may have no rows. The last size has 8 rows of tiles, a whole group of hgemm_tile, after which
// there is no tile to ask it for.
TEST_F(ScaledGemmOnHopper, BlocksWalkOverTheirTiles) {
  std::vector<Size> sizes{{257, 130, 1040}, {130, 258, 16}, {1, 2, 128}, {1024, 2, 16}};
#ifdef TENFOLD_TEST_ON_GPU
  sizes.push_back({2176, 2050, 784});  // 289 tiles
#endif
  for (const Size size : sizes) {
    for (const ScaledGemmScales scales : kBothScales) {
      const Inputs<T> in(size, scales);
      const auto expected =
          kernels::scaled_gemm_reference(in.wide_a, in.wide_b, size.m, size.n, size.k, sum_unit<T>(kScaledGemmRungs));
      for (int rung = kScaledGemmRungs; rung < kScaledGemmAllRungs<T>; ++rung) {
        for (const int multiprocessors : {1, 4})
          expect_all(product_on(multiprocessors, size, in, scales, rung), expected, text_of(size, scales, rung));
      }
    }
  }
}

// The first block of k sums to 128 * 448 * 448, above 2^24, and each further one has a 1 in each product of 32: four
// floats that are lost one by one, and kept when they are summed before. Few bits: exact on a GPU, too.
TEST_F(ScaledGemmOnHopper, SmallSumsAreNotLostInALargeOne) {
  constexpr Size kSize{3, 6, 384};
  for (const ScaledGemmScales scales : kBothScales) {
    Inputs<T> in(kSize, scales);
    for (auto* side : {&in.a, &in.b}) {
      std::ranges::fill(side->scales, 1.0F);
      for (size_t i = 0; i < side->codes.size(); ++i) {
        const size_t at = i % static_cast<size_t>(kSize.k);
        side->codes[i] = T(at < 128 ? 448.0F : at % 32 == 5 ? 1.0F : 0.0F);
      }
    }
    for (int rung = kScaledGemmRungs; rung < kScaledGemmAllRungs<T>; ++rung) {
      EXPECT_EQ(product_of(kSize, in.a, in.b, scales, rung),
                std::vector<float>(kSize.m * kSize.n, 128.0F * 448 * 448 + 8))
          << text_of(kSize, scales, rung);
    }
  }
}

// Each of the 256 codes times each, in the second block of k, which is a short one.
TEST_F(ScaledGemmOnHopper, EveryCodeTimesEveryCode) {
  constexpr Size kSize{256, 256, 144};
  EightBits<T> codes{std::vector<T>(kSize.m * kSize.k), {}};
  for (int64_t i = 0; i < kSize.m; ++i)
    codes.codes[static_cast<size_t>(i * kSize.k + 133)].__x = static_cast<uint8_t>(i);
  EightBits<T> a = codes, b = codes;
  a.scales.assign(2 * kSize.m, 0.5F), b.scales.assign(4, 4.0F);
  for (int rung = kScaledGemmRungs; rung < kScaledGemmAllRungs<T>; ++rung) {
    const std::vector<float> c = product_of(kSize, a, b, ScaledGemmScales::blocks, rung);
    for (size_t i = 0; i < c.size(); ++i) {
      const size_t row = i / kSize.n, column = i % kSize.n;
      const auto value = [&](size_t code) { return static_cast<float>(codes.codes[code * kSize.k + 133]); };
      if (row % 128 == 127 || column % 128 == 127) {
        ASSERT_TRUE(std::isnan(c[i])) << row << ", " << column;
      } else {
        ASSERT_EQ(c[i], 2 * value(row) * value(column)) << row << ", " << column;
      }
    }
  }
}

TYPED_TEST(ScaledGemm, EveryRungMatchesFloat64) {
  for (const Size size : kSizes) {
    for (const ScaledGemmScales scales : kBothScales) {
      const Inputs<TypeParam> in(size, scales);
      for (int rung = 0; rung < scaled_gemm_rungs<TypeParam>(); ++rung) {
        const auto expected =
            kernels::scaled_gemm_reference(in.wide_a, in.wide_b, size.m, size.n, size.k, sum_unit<TypeParam>(rung));
        expect_all(this->product_of(size, in.a, in.b, scales, rung), expected, text_of(size, scales, rung));
      }
    }
  }
  skip_missing_rungs(scaled_gemm_rungs<TypeParam>(), kScaledGemmAllRungs<TypeParam>);
}

// Codes and scales for which no sum needs more bits than there are, in whatever order and with 14 bits: products of -2
// to 2 are at most 4, so that 128 of them sum to 512; scales are powers of two.
TYPED_TEST(ScaledGemm, SmallIntegersAreExact) {
  for (const Size size : {Size{3, 260, 272}, {33, 66, 129}}) {
    for (const ScaledGemmScales scales : kBothScales) {
      Inputs<TypeParam> in(size, scales);
      std::mt19937 bits(5);
      for (auto* side : {&in.a, &in.b}) {
        for (auto& code : side->codes) code = static_cast<TypeParam>(static_cast<float>(bits() % 5) - 2);
        for (float& scale : side->scales) scale = std::ldexp(1.0F, static_cast<int>(bits() % 4));
      }
      in.wide_a = kernels::dequantised_a(in.a, size.m, size.k, scales);
      in.wide_b = kernels::dequantised_b(in.b, size.n, size.k, scales);
      const auto expected = kernels::scaled_gemm_reference(in.wide_a, in.wide_b, size.m, size.n, size.k);
      for (int rung = 0; rung < scaled_gemm_rungs<TypeParam>(); ++rung) {
        EXPECT_EQ(this->product_of(size, in.a, in.b, scales, rung),
                  std::vector<float>(expected.values.begin(), expected.values.end()))
            << text_of(size, scales, rung);
      }
    }
  }
  skip_missing_rungs(scaled_gemm_rungs<TypeParam>(), kScaledGemmAllRungs<TypeParam>);
}

// The largest codes of both signs: int8's sums are exact up to the last bit of 24, whichever way they are made.
TYPED_TEST(ScaledGemm, TheLargestCodesAreExactInInt8) {
  if constexpr (std::is_same_v<TypeParam, int8_t>) {
    constexpr Size kSize{17, 18, 1008};  // 1008 products of -128 and -128 are 2^24 less 2^18
    for (const ScaledGemmScales scales : kBothScales) {
      const Inputs<int8_t> sizes(kSize, scales);
      EightBits<int8_t> a = sizes.a, b = sizes.b;
      std::mt19937 bits(6);
      for (int64_t i = 0; i < kSize.m * kSize.k; ++i)
        a.codes[static_cast<size_t>(i)] = static_cast<int8_t>(i < kSize.k ? -128 : bits() % 256);
      for (int64_t i = 0; i < kSize.n * kSize.k; ++i)
        b.codes[static_cast<size_t>(i)] = static_cast<int8_t>(i < kSize.k ? -128 : bits() % 256);
      std::ranges::fill(a.scales, 0.5F);
      std::ranges::fill(b.scales, 0.25F);
      const auto expected = kernels::scaled_gemm_reference(kernels::dequantised_a(a, kSize.m, kSize.k, scales),
                                                           kernels::dequantised_b(b, kSize.n, kSize.k, scales), kSize.m,
                                                           kSize.n, kSize.k);
      for (int rung = 0; rung < scaled_gemm_rungs<TypeParam>(); ++rung) {
        EXPECT_EQ(this->product_of(kSize, a, b, scales, rung),
                  std::vector<float>(expected.values.begin(), expected.values.end()))
            << text_of(kSize, scales, rung);
      }
    }
    skip_missing_rungs(scaled_gemm_rungs<TypeParam>(), kScaledGemmAllRungs<TypeParam>);
  }
}

// A NaN among the codes reaches its row of C, and no other.
TYPED_TEST(ScaledGemm, NanStaysInItsRow) {
  if constexpr (!std::is_same_v<TypeParam, int8_t>) {
    constexpr Size kSize{70, 66, 144};
    Inputs<TypeParam> in(kSize, ScaledGemmScales::blocks);
    in.a.codes[3 * kSize.k + 130].__x = 0x7f;
    for (int rung = 0; rung < scaled_gemm_rungs<TypeParam>(); ++rung) {
      const std::vector<float> c = this->product_of(kSize, in.a, in.b, ScaledGemmScales::blocks, rung);
      for (size_t i = 0; i < c.size(); ++i)
        ASSERT_EQ(std::isnan(c[i]), i / kSize.n == 3) << text_of(kSize, ScaledGemmScales::blocks, rung) << ": " << i;
    }
    skip_missing_rungs(scaled_gemm_rungs<TypeParam>(), kScaledGemmAllRungs<TypeParam>);
  }
}

// Views into larger tensors begin anywhere: packets must give way, and what lies around C must stay.
TYPED_TEST(ScaledGemm, TakesPointersThatAreNotAlignedAndStaysInsideC) {
  constexpr Size kSize{40, 72, 80};
  constexpr auto kScales = ScaledGemmScales::blocks;
  constexpr int64_t kBehind = 4 * kSize.n;
  const Inputs<TypeParam> in(kSize, kScales);
  for (int rung = 0; rung < scaled_gemm_rungs<TypeParam>(); ++rung) {
    const auto expected =
        kernels::scaled_gemm_reference(in.wide_a, in.wide_b, kSize.m, kSize.n, kSize.k, sum_unit<TypeParam>(rung));
    for (int shifted = 0; shifted < 3; ++shifted) {
      SCOPED_TRACE("rung " + std::to_string(rung) + ", shifted by one element: " + "abc"[shifted]);
      const int a_shift = shifted == 0, b_shift = shifted == 1, c_shift = shifted == 2;
      std::vector<TypeParam> a = in.a.codes, b = in.b.codes;
      a.insert(a.begin(), static_cast<size_t>(a_shift), TypeParam());
      b.insert(b.begin(), static_cast<size_t>(b_shift), TypeParam());
      const auto a_codes = this->copied(a, "a"), b_codes = this->copied(b, "b");
      const auto a_scales = this->copied(in.a.scales, "a_scales"), b_scales = this->copied(in.b.scales, "b_scales");
      const auto c = this->template poisoned<float>(c_shift + kSize.m * kSize.n + kBehind, "c");
      scaled_gemm(this->stream(), c.data() + c_shift, a_codes.data() + a_shift, b_codes.data() + b_shift,
                  a_scales.data(), b_scales.data(), kSize.m, kSize.n, kSize.k, kScales, rung);
      this->expect_clean();
      const std::vector<float> host = c.host();
      expect_all(std::vector<float>(host.begin() + c_shift, host.end() - kBehind), expected, "shifted");
      for (int i = 0; i < c_shift; ++i) EXPECT_TRUE(std::isnan(host[static_cast<size_t>(i)])) << "before C";
      for (size_t i = host.size() - kBehind; i < host.size(); ++i) ASSERT_TRUE(std::isnan(host[i])) << "behind C";
    }
  }
  skip_missing_rungs(scaled_gemm_rungs<TypeParam>(), kScaledGemmAllRungs<TypeParam>);
}

TYPED_TEST(ScaledGemm, WhatCannotBeIsRefused) {
  const auto c = this->template poisoned<float>(64, "c");
  const auto in = this->template poisoned<TypeParam>(64, "in");
  const auto call = [&](int64_t m, int64_t n, int64_t k, ScaledGemmScales scales, int rung) {
    scaled_gemm(this->stream(), c.data(), in.data(), in.data(), c.data(), c.data(), m, n, k, scales, rung);
  };
  constexpr auto kBlocks = ScaledGemmScales::blocks, kTensor = ScaledGemmScales::tensor;
  constexpr int64_t kTooLarge = (int64_t{1} << 30) + 1;
  EXPECT_THROW(call(0, 1, 1, kBlocks, 0), std::invalid_argument);
  EXPECT_THROW(call(1, -1, 1, kBlocks, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 0, kBlocks, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, kTooLarge, kBlocks, 0), std::invalid_argument);
  EXPECT_THROW(call(int64_t{1} << 30, int64_t{1} << 30, 1, kBlocks, 0), std::invalid_argument);  // 2^60 values
  const int last = scaled_gemm_rungs<TypeParam>() - 1;
  EXPECT_THROW(call(int64_t{1} << 30, int64_t{1} << 30, 16, kBlocks, last), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 1, kBlocks, -2), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 1, kBlocks, kScaledGemmAllRungs<TypeParam>), std::invalid_argument);
  if constexpr (std::is_same_v<TypeParam, int8_t>) {
    try {
      call(1, 1, 131072, kTensor, 0);
      FAIL() << "a sum that int32 has no room for was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_STREQ(error.what(), "scaled_gemm: k = 131072 of int8 with one scale; a sum in int32 has room for 131071");
    }
  }
  EXPECT_TRUE(std::isnan(c.host()[0])) << "something ran";
}

#ifdef TENFOLD_COUNTED

using simt::Kind;
using simt::Report;
using simt::Space;

template <class T>
class ScaledGemmUnderTheMicroscope : public ScaledGemm<T> {
 protected:
  Report report_of(Size size, ScaledGemmScales scales, int rung) {
    this->device_.reset();
    const Inputs<T> in(size, scales);
    this->product_of(size, in.a, in.b, scales, rung);
    return this->device_.report();
  }
};
TYPED_TEST_SUITE(ScaledGemmUnderTheMicroscope, ScaledGemmTypes);

TYPED_TEST(ScaledGemmUnderTheMicroscope, rung_0_touches_a_sector_for_each_byte_of_b) {
  const Report report = this->report_of({8, 32, 256}, ScaledGemmScales::blocks, 0);
  EXPECT_EQ(widest(report, Kind::load, "b").sectors_per_request, 32);
  EXPECT_EQ(widest(report, Kind::load, "b").bytes, 1);
  EXPECT_EQ(widest(report, Kind::load, "a").sectors_per_request, 1);
}

TYPED_TEST(ScaledGemmUnderTheMicroscope, tensor_cores_multiply_from_rung_2_on) {
  constexpr Size kSize{256, 128, 256};  // whole tiles of a cluster, too
  constexpr int64_t kFmas = kSize.m * kSize.n * kSize.k;
  for (int rung = 0; rung < kScaledGemmAllRungs<TypeParam>; ++rung) {
    const Report report = this->report_of(kSize, ScaledGemmScales::blocks, rung);
    EXPECT_EQ(report.matrix_multiplies, rung < 2 ? 0 : kFmas / (rung < kScaledGemmRungs ? 4096 : 64 * 128 * 32))
        << rung;
    EXPECT_EQ(report.tensor_flops, rung < 2 ? 0 : 2 * kFmas) << rung;
  }
}

TYPED_TEST(ScaledGemmUnderTheMicroscope, bank_conflicts_are_rung_2s) {
  for (int rung = 1; rung < kScaledGemmAllRungs<TypeParam>; ++rung) {
    for (const auto& access : this->report_of({128, 128, 128}, ScaledGemmScales::blocks, rung).accesses) {
      if (access.space != Space::shared) continue;
      const int stores = rung == 1 ? 2 : 1, loads = rung == 2 ? 4 : 1;  // padded rows: two of 80 bytes share banks
      EXPECT_EQ(access.worst_ways, access.kind == Kind::store ? stores : loads) << rung;
    }
  }
}

TYPED_TEST(ScaledGemmUnderTheMicroscope, rung_4_has_a_barrier_for_each_step) {
  constexpr Size kSize{128, 64, 320};  // 5 steps
  EXPECT_EQ(this->report_of(kSize, ScaledGemmScales::blocks, 3).barriers, 2 * 5);
  EXPECT_EQ(this->report_of(kSize, ScaledGemmScales::blocks, 4).barriers, 5);
}

#endif

}  // namespace
}  // namespace tenfold::test
