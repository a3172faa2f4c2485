#pragma once
// One function of every element, by CUDA's library functions or by its fast intrinsics.

#include <cstdint>

namespace tenfold::kernels {

// clang-format off
/// What rung 0 and rung 1 compute with; u = sqrt(2 / pi) (x + 0.044715 x^3):
///                 rung 0                          rung 1
/// copy            x                               x
/// exponential     expf(x)                         __expf(x)
/// sine            sinf(x)                         __sinf(x)
/// sigmoid         1 / (1 + expf(-x))              __fdividef(1, 1 + __expf(-x))
/// gelu            x / 2 (1 + tanhf(u))            __fdividef(x, 1 + __expf(-2 u))
/// inverse_root    1 / sqrtf(x)                    rsqrtf(x)
/// The two columns are equal, but for rounding: (1 + tanh u) / 2 is the sigmoid of 2 u.
// clang-format on
enum class MathFunction { copy, exponential, sine, sigmoid, gelu, inverse_root };
inline constexpr int kMathFunctions = 6;

inline constexpr int kFastMathRungs = 2;

/// Added to x between two evaluations of one element, so that no compiler can take the function out of the loop.
inline constexpr float kFastMathStep = 0x1p-6F;

/// out[i] = f(x) + f(x + step) + ... , `repeats` terms added in float in this order, with x = in[i] and step =
/// kFastMathStep, for n elements. With one repeat it is an elementwise kernel as any other: 8 bytes of traffic for one
/// evaluation. More repeats are more arithmetic for the same bytes. Rungs: 0 library functions, 1 intrinsics;
/// fast_math_error.h has what NVIDIA says of their errors. `out` and `in` must not overlap. Throws
/// std::invalid_argument for n or repeats below 1, 2^38 elements or more, or an unknown rung. Source: NVIDIA, "CUDA C++
/// Programming Guide", release 13, "Mathematical Functions".
template <class Stream>
void fast_math(Stream stream, float* out, const float* in, int64_t n, MathFunction function, int repeats = 1,
               int rung = kFastMathRungs - 1);

}  // namespace tenfold::kernels
