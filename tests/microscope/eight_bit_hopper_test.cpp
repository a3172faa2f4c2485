// wgmma with operands of 8 bits under the microscope: against a plain product, and what is refused.
#include <cuda.h>
#include <cuda_fp8.h>

#include <cmath>
#include <random>

#include "common/microscope/hopper.h"
#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::FaultKind;
using simt::Kind;
using simt::Space;

class EightBitHopper : public MarkedLines {
 protected:
  EightBitHopper() : MarkedLines("eight_bit_kernels.cuh") {}

  void run(const char* kernel, int64_t n, void* out, const void* in) {
    SCOPED_TRACE(std::string(kernel) + " " + std::to_string(n));
    device_.reset();
    run_kernel(&device_, kernel, {.block = {128, 1, 1}, .shared_bytes = 1024 + 8192 + 16384}, out, in, n);
  }
};

/// What a code of e4m3 stands for, by OCP's definition: 4 bits of exponent with a bias of 7, 3 of mantissa.
double value_of(uint8_t code) {
  const int mantissa = code & 7, exponent = code >> 3 & 15;
  if (mantissa == 7 && exponent == 15) return NAN;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

TEST_F(EightBitHopper, WgmmaIsAMatrixProductInEveryLayout) {
  constexpr int64_t kRows = 64, kColumns = 128, kDepth = 32;
  std::vector<uint8_t> codes;
  std::mt19937 bits(1);
  for (int64_t i = 0; i < (kRows + kColumns) * kDepth; ++i) {
    auto code = static_cast<uint8_t>(bits());
    if (std::isnan(value_of(code))) code = 0x80;
    codes.push_back(code);
  }
  codes[5 * kDepth + 7] = 0x7f;  // a NaN in row 5 of A
  const auto in = filled("codes", codes);
  for (int64_t layouts = 0; layouts < 4; ++layouts) {
    const auto out = counted<float>("sums", kRows * kColumns);
    run("wgmma_e4m3", layouts, out.data(), in.data());
    expect_clean();
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        double sum = 0;  // exact: products are multiples of 2^-18, and their sum is less than 2^23
        for (int64_t k = 0; k < kDepth; ++k) {
          sum += value_of(codes[static_cast<size_t>(row * kDepth + k)]) *
                 value_of(codes[static_cast<size_t>((kRows + column) * kDepth + k)]);
        }
        const auto expected = static_cast<float>(sum + static_cast<double>(row * kColumns + column));
        const float result = out[row * kColumns + column];
        if (row == 5) {
          ASSERT_TRUE(std::isnan(result)) << column;
        } else {
          ASSERT_EQ(result, expected) << layouts << ": " << row << ", " << column;
        }
      }
    }
    EXPECT_EQ(device_.report().matrix_multiplies, 1);
    EXPECT_EQ(device_.report().tensor_flops, 2 * kRows * kColumns * kDepth);
    int64_t bytes = 0, wavefronts = 0;
    for (const simt::Access& access : device_.report().accesses) {
      if (access.space != Space::shared || access.kind != Kind::load) continue;
      bytes += access.bytes, wavefronts += access.wavefronts;
    }
    EXPECT_EQ(bytes, (kRows + kColumns) * kDepth);
    EXPECT_EQ(wavefronts, 16 + 32) << "128 bytes each";
  }
}

TEST_F(EightBitHopper, WhatIsNotThereIsRefused) {
  const auto out = counted<float>("sums", 64);
  for (const int64_t n : {0, 1}) {
    run("wgmma_8bit_mistake", n, out.data(), nullptr);
    expect_a_fault(FaultKind::bad_operand, "refused", "must have neighbours along the depth");
  }
  run("wgmma_8bit_mistake", 2, out.data(), nullptr);
  expect_a_fault(FaultKind::bad_operand, "in_registers", "no wgmma of 8 bits with A in registers");
  run("wgmma_8bit_mistake", 3, out.data(), nullptr);
  expect_a_fault(FaultKind::bad_operand, "refused", "no wgmma of this type");
}

}  // namespace
}  // namespace tenfold::test
