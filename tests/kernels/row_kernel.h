#pragma once
// What the tests of the kernels over rows share: the three types, and judging results by kernels/expected.h.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <type_traits>

#include "kernel_device.h"
#include "kernels/expected.h"

namespace tenfold::test {

using RowTypes = testing::Types<float, __half, __nv_bfloat16>;

template <class T>
constexpr kernels::Rounding rounding_of() {
  if constexpr (std::is_same_v<T, __half>) return kernels::kHalfRounding;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return kernels::kBfloat16Rounding;
  return kernels::kFloatRounding;
}

template <class T>
std::vector<T> rounded(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) {
    if constexpr (std::is_same_v<T, __half>) {
      result.push_back(__float2half(value));
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      result.push_back(__float2bfloat16(value));
    } else {
      result.push_back(value);
    }
  }
  return result;
}

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

/// The values as T, and the same values, as T rounded them, for a reference.
template <class T>
struct Values {
  explicit Values(const std::vector<float>& from) : given(rounded<T>(from)), wide(widened(given)) {}
  std::vector<T> given;
  std::vector<double> wide;
};

/// Normal values times `scale` plus `shift`.
inline std::vector<float> scaled_values(int64_t count, uint64_t seed, float scale, float shift = 0) {
  auto values = normal_values(count, seed);
  for (float& value : values) value = value * scale + shift;
  return values;
}

/// Every result within its bound, none left unwritten.
template <class T>
void expect_all(const std::vector<T>& results, const kernels::Expected& expected, const std::string& what) {
  ASSERT_EQ(results.size(), expected.values.size()) << what;
  EXPECT_LE(kernels::worst_error(results, expected), 1) << what << ": error over bound";
}

/// The derivative of `f` at in[i], by central differences.
template <class Function>
double slope_of(const Function& f, std::vector<double> in, size_t i) {
  const double step = 1e-5, at = in[i];
  in[i] = at + step;
  const double above = f(in);
  in[i] = at - step;
  return (above - f(in)) / (2 * step);
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// launcher(rows, columns, rung), which has so many rungs, must refuse every shape and rung that cannot be.
template <class Launcher>
void expect_refused(const Launcher& launcher, int rungs) {
  EXPECT_THROW(launcher(0, 1, 0), std::invalid_argument);
  EXPECT_THROW(launcher(1, 0, 0), std::invalid_argument);
  EXPECT_THROW(launcher(1, -1, 0), std::invalid_argument);
  EXPECT_THROW(launcher(int64_t{1} << 31, 1, 0), std::invalid_argument);
  EXPECT_THROW(launcher(1, 1, -1), std::invalid_argument);
  EXPECT_THROW(launcher(1, 1, rungs), std::invalid_argument);
}

inline std::string text_of_case(int64_t rows, int64_t columns, int rung) {
  return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ") rung " + std::to_string(rung);
}

#ifdef TENFOLD_COUNTED

/// Bytes that the kernels' instructions asked for, in the buffer of that name.
inline int64_t bytes_asked(const simt::Report& report, simt::Kind kind, const std::string& buffer) {
  int64_t bytes = 0;
  for (const auto& access : report.accesses) {
    if (access.space == simt::Space::global && access.kind == kind && access.buffer == buffer)
      bytes += access.bytes_asked();
  }
  return bytes;
}

/// The most sectors per request of any instruction of that kind in the buffer, and the widest access in bytes.
struct Widest {
  double sectors_per_request = 0;
  int bytes = 0;
};
inline Widest widest(const simt::Report& report, simt::Kind kind, const std::string& buffer) {
  Widest found;
  for (const auto& access : report.accesses) {
    if (access.space != simt::Space::global || access.kind != kind || access.buffer != buffer) continue;
    found.sectors_per_request = std::max(found.sectors_per_request, access.sectors_per_request());
    found.bytes = std::max(found.bytes, access.bytes);
  }
  return found;
}

/// The worst bank conflict of all shared accesses; 1 is none.
inline int worst_ways(const simt::Report& report) {
  int ways = 0;
  for (const auto& access : report.accesses) {
    if (access.space == simt::Space::shared) ways = std::max(ways, access.worst_ways);
  }
  return ways;
}

#endif

/// What the norms' backward pass has ways of its own for; `skip` values lie before each array, so that it begins
/// between packets.
struct NormBackwardShape {
  int64_t rows, columns, skip;
};
inline constexpr NormBackwardShape kNormBackwardShapes[] = {
    {300, 40, 0},   // several parts of the rows
    {70, 264, 0},   // more than one tile of packets, the last partial
    {37, 768, 0},   // four rows of threads side by side, the last of them without a row
    {5, 1600, 0},   // two
    {3, 8192, 0},   // the widest row that is held
    {2, 8200, 0},   // wider
    {5, 64, 1},     // single values
    {2, 4095, 1}};  // the widest row of them that is held

}  // namespace tenfold::test
