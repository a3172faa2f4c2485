#pragma once
// How far from the exact value fast_math may be, by what NVIDIA documents; and a model of the part of that error which
// follows from the instructions alone. None of it is measured: the microscope computes intrinsics exactly, and only a
// GPU shows what a GPU does.

#include <cmath>
#include <limits>

#include "fast_math.h"

namespace tenfold::kernels {

/// The function in float64.
inline double math_value(MathFunction function, double x) {
  switch (function) {
    case MathFunction::copy:
      return x;
    case MathFunction::exponential:
      return std::exp(x);
    case MathFunction::sine:
      return std::sin(x);
    case MathFunction::sigmoid:
      return 1 / (1 + std::exp(-x));
    case MathFunction::gelu:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case MathFunction::inverse_root:
      return 1 / std::sqrt(x);
  }
  return NAN;
}

/// Distance of two neighbouring floats at `value`; where there is none, above the largest, of the last two.
inline double ulp(double value) {
  const double magnitude = std::fmin(std::abs(value), std::numeric_limits<float>::max());
  return std::fmax(std::ldexp(1.0, std::ilogb(std::fmax(magnitude, 0x1p-200)) - 23), 0x1p-149);
}

/// The largest relative error of one rounding.
inline constexpr double kOneRounding = 0x1p-24;

/// The largest error of a result that is `ulps` from the correctly rounded one, which is how NVIDIA's guide states
/// errors.
inline double error_of(double ulps, double value) { return (ulps + 0.5) * ulp(value); }

/// Of the guide's tables.
inline constexpr double kLibraryUlps = 2;   ///< expf, sinf, tanhf; rsqrtf, which has no other version
inline constexpr double kFdividefUlps = 2;  ///< __fdividef(x, y) for 2^-126 <= |y| <= 2^126; above it may be 0
inline double expf_ulps(bool intrinsic, double x) {
  return intrinsic ? 2 + std::floor(std::abs(1.173 * x)) : kLibraryUlps;
}

/// Largest absolute error of __sinf(x): the guide's within [-pi, pi]; beyond, that of the instruction behind it,
/// sin.approx, by the PTX ISA; none is stated past 100 pi.
inline double sine_error(double x) {
  const double size = std::abs(x);
  if (size <= M_PI) return std::exp2(-21.41);
  if (size <= 2 * M_PI) return std::exp2(-20.5);
  return size <= 100 * M_PI ? std::exp2(-14.7) : std::numeric_limits<double>::infinity();
}

/// The largest error of value = 1 / (1 + e) or x / (1 + e), where e = exp(-v) and v is known to `of_argument` relative:
/// the error of e counts by its share in 1 + e. Where 1 + e passes 2^126 __fdividef may give 0, and where it overflows
/// either rung does.
inline double quotient_error(bool intrinsic, double value, double v, double of_argument) {
  constexpr double kLeast = 0x1p-148;  // of results below the normal range
  const double e = std::exp(-v), size = std::abs(value);
  if (1 + e >= (intrinsic ? 0x1p126 : std::numeric_limits<float>::max())) return size + kLeast;
  const double of_e = e == 0 ? 0 : error_of(expf_ulps(intrinsic, v), e) + e * std::abs(v) * of_argument;
  return size * (of_e / (1 + e) + kOneRounding) + error_of(intrinsic ? kFdividefUlps : 0, value) + kLeast;
}

/// The largest abs(f(x) - exact) of rung 0 or 1 for a float x, from NVIDIA's bounds for the functions ("CUDA C++
/// Programming Guide", release 13, "Mathematical Functions"; "PTX ISA", `sin`) and the roundings in between. Infinite
/// where NVIDIA states none.
inline double documented_error(MathFunction function, int rung, double x) {
  const bool intrinsic = rung == 1;
  const double value = math_value(function, x);
  switch (function) {
    case MathFunction::copy:
      return 0;
    case MathFunction::exponential:
      return error_of(expf_ulps(intrinsic, x), value);
    case MathFunction::sine:
      return intrinsic ? sine_error(x) : error_of(kLibraryUlps, value);
    case MathFunction::sigmoid:
      return quotient_error(intrinsic, value, x, 0);
    case MathFunction::gelu: {
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x),
                   of_argument = 7 * kOneRounding;  // its products and sum
      if (intrinsic) return quotient_error(true, value, 2 * u, of_argument);
      const double tanh = std::tanh(u), slope = 1 - tanh * tanh;
      const double of_tanh = error_of(kLibraryUlps, tanh) + slope * std::abs(u) * of_argument;
      return std::abs(x) / 2 * (of_tanh + 2 * kOneRounding * (1 + tanh)) + error_of(0, value);
    }
    case MathFunction::inverse_root:
      return intrinsic ? error_of(kLibraryUlps, value) : value * kOneRounding + error_of(0, value);
  }
  return NAN;
}

/// a * b rounded towards zero, as the product before the sine instruction is.
inline float product_towards_zero(float a, float b) {
  const double exact = static_cast<double>(a) * b;
  const auto nearest = static_cast<float>(exact);
  return std::abs(static_cast<double>(nearest)) > std::abs(exact) ? std::nextafter(nearest, 0.0F) : nearest;
}

/// __expf and __sinf as nvcc compiles them, a product and one approximation instruction (ex2, sin), with that
/// instruction taken as exact: what is left is the error of the product alone. A model; a GPU adds the instruction's
/// own error.
inline float modelled_expf(float x) { return static_cast<float>(std::exp2(static_cast<double>(x * 1.4426950216F))); }
inline float modelled_sinf(float x) {
  return static_cast<float>(std::sin(2 * M_PI * static_cast<double>(product_towards_zero(x, 0.15915493667F))));
}

/// Rung 1 with these two in place of the intrinsics. __fdividef and rsqrtf are not modelled: here they round correctly.
inline float modelled_value(MathFunction function, float x) {
  const auto u = [&] { return 0.7978845608F * (x + 0.044715F * x * x * x); };
  switch (function) {
    case MathFunction::copy:
      return x;
    case MathFunction::exponential:
      return modelled_expf(x);
    case MathFunction::sine:
      return modelled_sinf(x);
    case MathFunction::sigmoid:
      return 1 / (1 + modelled_expf(-x));
    case MathFunction::gelu:
      return x / (1 + modelled_expf(-2 * u()));
    case MathFunction::inverse_root:
      return static_cast<float>(1 / std::sqrt(static_cast<double>(x)));
  }
  return NAN;
}

}  // namespace tenfold::kernels
