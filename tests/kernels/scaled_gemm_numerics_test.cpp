// What kernels/scaled_gemm/README.md says of errors: 8-bit formats against their definition, one scale against many,
// and sums in 14 bits against promoted ones. No GPU and no microscope takes part.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>

#include "kernels/scaled_gemm/scaled_gemm_accumulator.h"
#include "kernels/scaled_gemm/scaled_gemm_reference.h"
#include "tests/support/support.h"

namespace tenfold::test {
namespace {

using kernels::kHopperBits;
using kernels::ScaledGemmScales;

/// e4m3 and e5m2 by their definition: OCP, "8-bit Floating Point Specification (OFP8)", revision 1.0, table 1.
struct Format {
  __nv_fp8_interpretation_t name;
  int mantissa_bits, bias;
  double largest;
};
constexpr Format kFormats[] = {{__NV_E4M3, 3, 7, 448}, {__NV_E5M2, 2, 15, 57344}};

/// What a code stands for. e4m3 has NaN at all ones and no infinity, e5m2 both as IEEE has them.
double value_of(const Format& format, int code) {
  const int mantissa = code & ((1 << format.mantissa_bits) - 1), exponent = (code & 0x7f) >> format.mantissa_bits;
  const int most = 0x7f >> format.mantissa_bits;
  double size = 0;
  if (format.name == __NV_E4M3 && (code & 0x7f) == 0x7f) {
    size = NAN;
  } else if (format.name == __NV_E5M2 && exponent == most) {
    size = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    size = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    size = std::ldexp((1 << format.mantissa_bits) + mantissa, exponent - format.bias - format.mantissa_bits);
  }
  return (code & 0x80) != 0 ? -size : size;
}

double library_value(const Format& format, int code) {
  const __half_raw half = __nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(code), format.name);
  return static_cast<double>(__half2float(__half(half)));
}
int library_code(const Format& format, float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, format.name);
}

TEST(EightBitFormats, EveryCodeIsWhatTheSpecificationSays) {
  for (const Format& format : kFormats) {
    for (int code = 0; code < 256; ++code) {
      const double value = value_of(format, code), made = library_value(format, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(made)) << code;
      } else {
        EXPECT_EQ(made, value) << code;
        EXPECT_EQ(std::signbit(made), std::signbit(value)) << code;
        if (std::isfinite(value)) {
          EXPECT_EQ(library_code(format, static_cast<float>(value)), code);
        }
      }
    }
  }
}

// At every boundary between two neighbours, and a float before and behind it: to nearest, ties to the even code.
TEST(EightBitFormats, EveryBoundaryRoundsToNearestEven) {
  for (const Format& format : kFormats) {
    for (int code = 0; value_of(format, code) < format.largest; ++code) {
      const double low = value_of(format, code), high = value_of(format, code + 1);
      const auto middle = static_cast<float>((low + high) / 2);
      for (const float sign : {1.0F, -1.0F}) {
        const int bit = sign < 0 ? 0x80 : 0;
        EXPECT_EQ(library_code(format, sign * middle), bit | (code + code % 2)) << middle;
        EXPECT_EQ(library_code(format, sign * std::nextafter(middle, 0.0F)), bit | code) << middle;
        EXPECT_EQ(library_code(format, sign * std::nextafter(middle, INFINITY)), bit | (code + 1)) << middle;
      }
    }
  }
}

TEST(EightBitFormats, TooLargeSaturatesAndNanStays) {
  for (const Format& format : kFormats) {
    const int largest = library_code(format, static_cast<float>(format.largest));
    EXPECT_EQ(value_of(format, largest), format.largest);
    for (const float value : {format.name == __NV_E4M3 ? 480.0F : 65536.0F, 1e30F, INFINITY}) {
      EXPECT_EQ(library_code(format, value), largest) << value;
      EXPECT_EQ(library_code(format, -value), 0x80 | largest) << value;
    }
    EXPECT_TRUE(std::isnan(value_of(format, library_code(format, NAN))));
  }
}

/// About normal, and the same bits everywhere: the sum of twelve uniform numbers, less its mean.
class Normal {
 public:
  explicit Normal(uint64_t seed) : bits_(seed) {}
  double operator()() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(bits_() >> 40) * 0x1p-24;
    return sum;
  }

 private:
  std::mt19937_64 bits_;
};

constexpr int64_t kRows = 32, kColumns = 128, kDeep = 1024;

/// Activations of `kRows` tokens: one channel in 64 is `outlier` times as large as the others.
std::vector<float> activations(double outlier) {
  Normal normal(1);
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * kDeep; ++i)
    values.push_back(static_cast<float>(normal() * (i % kDeep % 64 == 17 && i % kDeep < 256 ? outlier : 1)));
  return values;
}

/// Root mean square of the error of C over that of C, with the values in 8 bits and products and sums exact.
template <class T>
double error_of(const std::vector<float>& a, const std::vector<float>& b, ScaledGemmScales scales) {
  const auto in_a = kernels::quantised_a<T>(a, kRows, kDeep, scales);
  const auto in_b = kernels::quantised_b<T>(b, kColumns, kDeep, scales);
  const auto product = [](const std::vector<double>& x, const std::vector<double>& y) {
    return kernels::scaled_gemm_reference(x, y, kRows, kColumns, kDeep).values;
  };
  const std::vector<double> exact = product({a.begin(), a.end()}, {b.begin(), b.end()});
  const std::vector<double> made = product(kernels::dequantised_a(in_a, kRows, kDeep, scales),
                                           kernels::dequantised_b(in_b, kColumns, kDeep, scales));
  double error = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (made[i] - exact[i]) * (made[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

struct ScaleErrors {
  double int8_tensor, int8_blocks, e4m3_tensor, e4m3_blocks;
};
ScaleErrors scale_errors(double outlier) {
  Normal normal(2);
  std::vector<float> b;
  for (int64_t i = 0; i < kColumns * kDeep; ++i) b.push_back(static_cast<float>(normal() / 32));
  const std::vector<float> a = activations(outlier);
  // Outliers would hide in C what becomes of the others: their rows of B are 0.
  for (int64_t i = 0; i < kColumns * kDeep; ++i) {
    if (i % kDeep % 64 == 17 && i % kDeep < 256) b[static_cast<size_t>(i)] = 0;
  }
  return {error_of<int8_t>(a, b, ScaledGemmScales::tensor), error_of<int8_t>(a, b, ScaledGemmScales::blocks),
          error_of<__nv_fp8_e4m3>(a, b, ScaledGemmScales::tensor),
          error_of<__nv_fp8_e4m3>(a, b, ScaledGemmScales::blocks)};
}

std::string percent(double share) {
  if (share < 1e-5) return "< 0.001 %";
  char text[32];
  std::snprintf(text, sizeof text, share < 0.1 ? "%#.2g %%" : "%.0f %%", 100 * share);
  return text;
}

void expect_on_page(const std::string& line) {
  const std::string page = read_text(source_folder() / "kernels/scaled_gemm/README.md");
  EXPECT_NE(page.find(line), std::string::npos) << "kernels/scaled_gemm/README.md lacks the line\n" << line;
}

TEST(ScaledGemmScalesTest, TheTableOfThePage) {
  for (const double outlier : {1.0, 30.0, 1000.0, 100000.0}) {
    const ScaleErrors e = scale_errors(outlier);
    char number[32];
    std::snprintf(number, sizeof number, "%.0f", outlier);
    expect_on_page(std::string("| ") + number + " | " + percent(e.int8_tensor) + " | " + percent(e.int8_blocks) +
                   " | " + percent(e.e4m3_tensor) + " | " + percent(e.e4m3_blocks) + " |");
  }
}

// An int8 step is absmax / 127 for all, so that an outlier makes it larger by its factor. With scales of blocks, 6 of 8
// have no outlier: the error of the other two is at most what it is with one scale, and counts for a quarter of the
// squares. e4m3 rounds to 1/16 of a value at most, whatever the scale, down to 2^-6 in units of the scale; the largest
// is 448, 28672 times as much.
TEST(ScaledGemmScalesTest, OutliersSpoilInt8AndLeaveE4m3Alone) {
  const ScaleErrors plain = scale_errors(1), some = scale_errors(30), beyond = scale_errors(100000);
  EXPECT_GT(some.int8_tensor, 10 * plain.int8_tensor);
  EXPECT_LT(some.int8_blocks, some.int8_tensor / 2 + plain.int8_blocks);
  EXPECT_LT(plain.e4m3_blocks, 0.0625);
  EXPECT_LT(some.e4m3_tensor, 1.1 * plain.e4m3_tensor);
  EXPECT_GT(beyond.e4m3_tensor, 5 * plain.e4m3_tensor);
  EXPECT_LT(beyond.e4m3_blocks, beyond.e4m3_tensor / 2 + plain.e4m3_blocks);
}

/// Products of codes of e4m3, of random signs or all positive.
std::vector<double> products(int64_t k, bool positive, uint64_t seed) {
  Normal normal(seed);
  const auto code = [&] {
    const auto value = static_cast<float>(normal());
    return static_cast<double>(static_cast<float>(__nv_fp8_e4m3(positive ? std::abs(value) : value)));
  };
  std::vector<double> all;
  for (int64_t i = 0; i < k; ++i) {
    const double a = code(), b = code();
    all.push_back(a * b);
  }
  return all;
}

/// Root mean square over 64 sums of the error, over that of the sums.
double sum_error(int64_t k, bool positive, int bits, size_t promoted) {
  double error = 0, size = 0;
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    const std::vector<double> terms = products(k, positive, seed);
    double exact = 0;
    for (const double term : terms) exact += term;  // exact: 36 bits and 12
    const double off = static_cast<double>(kernels::accumulated(terms, bits, promoted)) - exact;
    error += off * off;
    size += exact * exact;
  }
  return std::sqrt(error / size);
}

TEST(ScaledGemmSums, TheTableOfThePage) {
  for (const bool positive : {false, true}) {
    for (const int64_t k : {1024, 4096, 16384}) {
      std::string line = std::string("| ") + (positive ? "positive" : "both signs") + " | " + std::to_string(k);
      for (const auto& [bits, promoted] : {std::pair{kHopperBits, 0}, {kHopperBits, 512}, {kHopperBits, 128}, {24, 0}})
        line += " | " + percent(sum_error(k, positive, bits, static_cast<size_t>(promoted)));
      expect_on_page(line + " |");
    }
  }
}

// Each step of 32 cuts the kept sum off at 14 bits, at most 2^-13 of it, 2^-15 on the average at least: half a unit,
// which is 2^-14 to 2^-13 of the sum. All cut the same way, so that k / 32 losses add up; of a sum that grows from 0
// they are half as many of the last one's, or more. Promoted, there are 4 steps whatever k; a step's 32 addends lose up
// to a unit each.
TEST(ScaledGemmSums, LossesGrowWithKUnlessPromoted) {
  constexpr double kLoss = 0x1p-13;
  for (const int64_t k : {1024, 4096, 16384}) {
    const double steps = static_cast<double>(k) / 32, kept = sum_error(k, true, kHopperBits, 0);
    EXPECT_LT(kept, steps * kLoss);
    EXPECT_GT(kept, steps * kLoss / 8 / 2);
    EXPECT_LT(sum_error(k, true, kHopperBits, 128), (4 + 32) * kLoss);
  }
  EXPECT_GT(sum_error(4096, true, kHopperBits, 0), 3 * sum_error(4096, true, kHopperBits, 128));
  EXPECT_GT(sum_error(16384, true, kHopperBits, 0), 3 * sum_error(4096, true, kHopperBits, 0));
}

TEST(ScaledGemmSums, SumsInBits) {
  using kernels::sum_in_bits;
  EXPECT_EQ(sum_in_bits(std::vector{1.0, 0x1p-13}, 14), 1 + 0x1p-13);  // the 14th bit
  EXPECT_EQ(sum_in_bits(std::vector{1.0, 0x1p-14}, 14), 1);            // the 15th
  EXPECT_EQ(sum_in_bits(std::vector{-1.0, -0x1p-14}, 14), -1);         // towards 0
  EXPECT_EQ(sum_in_bits(std::vector{1.0, 1 - 0x1p-13, 0x1p-13}, 14), 2);
  EXPECT_EQ(sum_in_bits(std::vector{1.0, 1 + 0x1p-13}, 14), 2) << "a sum has no more bits";
  EXPECT_EQ(sum_in_bits(std::vector{0.0, 0.0}, 14), 0);
  EXPECT_EQ(sum_in_bits(std::vector{1.0, -1.0}, 14), 0);
}

}  // namespace
}  // namespace tenfold::test
