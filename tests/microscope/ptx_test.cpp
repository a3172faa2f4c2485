// Tensor cores and asynchronous copies under the microscope: layouts against plain matrix products and the PTX ISA's
// tables, conflicts against counts by hand, and every way to use a copy too early.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::FaultKind;
using simt::Kind;
using simt::Report;
using simt::Space;

class Ptx : public MarkedLines {
 protected:
  Ptx() : MarkedLines("ptx_kernels.cuh") {}

  Access at(const std::string& marker, Space space, Kind kind) const {
    const std::vector<Access> found = accesses_at(marker, space, kind);
    EXPECT_EQ(found.size(), 1U) << marker;
    return found.size() == 1 ? found[0] : Access{};
  }
  void expect_race(const std::string& a, const std::string& b, bool in_flight) const {
    const Report report = device_.report();
    EXPECT_TRUE(report.faults.empty()) << report.faults[0].text;
    ASSERT_FALSE(report.races.empty()) << "no race between " << a << " and " << b;
    for (const simt::Race& race : races_between(a, b)) {
      EXPECT_EQ(race.space, Space::shared);
      EXPECT_EQ(race.in_flight, in_flight);
    }
  }
  void expect_fault(FaultKind kind, const std::string& marker, const std::string& part) const {
    const Report report = device_.report();
    EXPECT_TRUE(report.races.empty());
    ASSERT_EQ(report.faults.size(), 1U);
    const simt::Fault& fault = report.faults[0];
    EXPECT_EQ(name_of(fault.kind), std::string(name_of(kind))) << fault.text;
    EXPECT_EQ(text_of(fault.where), text_of(where(marker))) << fault.text;
    EXPECT_NE(fault.text.find(part), std::string::npos) << fault.text;
  }

  /// out += A * B with A (16, depth) and B (depth, 8), no two elements alike and all sums exact.
  template <class T>
  void expect_product(const char* kernel, int64_t depth) {
    SCOPED_TRACE(kernel);
    device_.reset();
    std::vector<T> in;
    std::vector<double> values;
    for (int i = 0; i < 24 * depth; ++i) {
      // 8 bits of mantissa, as bf16 has them, and of different sizes and signs.
      values.push_back((i % 2 == 0 ? 1 : -1) * std::ldexp(128 + i % 127, i / 127 - 8));
      in.push_back(T(static_cast<float>(values.back())));
      ASSERT_EQ(static_cast<double>(static_cast<float>(in.back())), values.back()) << "not exact in this type: " << i;
    }
    const auto buffer = filled("in", in);
    const auto out = counted<float>("out", 128, 1000);
    run_kernel(&device_, kernel, {}, out.data(), buffer.data());
    expect_clean();
    const auto value = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
    for (int64_t row = 0; row < 16; ++row) {
      for (int64_t column = 0; column < 8; ++column) {
        auto sum = static_cast<double>(1000 + row * 8 + column);
        for (int64_t k = 0; k < depth; ++k) sum += value(row * depth + k) * value(16 * depth + k * 8 + column);
        EXPECT_NEAR(static_cast<double>(out[row * 8 + column]), sum, std::abs(sum) * 0x1p-23) << row << ", " << column;
      }
    }
    EXPECT_EQ(device_.report().matrix_multiplies, 1);
    EXPECT_EQ(device_.report().tensor_flops, 2 * 16 * 8 * depth);
  }

  simt::Buffer<float> out_ = counted<float>("out", 1024), in_ = counted<float>("in", 1024);
};

TEST_F(Ptx, ARegisterHasTwoRoundedNeighboursTheFirstInTheLowerHalf) {
  const auto expect_pairs = [&]<class T>(const char* kernel, T) {
    std::fill(out_.begin(), out_.end(), 0.0F);
    for (int64_t i = 0; i < 64; ++i)
      in_[i] = (i % 3 == 0 ? -1.0F : 1.0F) * std::ldexp(1.0F + static_cast<float>(i) / 61, static_cast<int>(i) % 13);
    run_kernel(&device_, kernel, {}, out_.data(), in_.data());
    for (int64_t i = 0; i < 32; ++i) {
      const auto low = std::bit_cast<uint16_t>(T(in_[2 * i])), high = std::bit_cast<uint16_t>(T(in_[2 * i + 1]));
      EXPECT_EQ(std::bit_cast<uint32_t>(out_[i]), uint32_t{high} << 16 | low) << kernel << ", lane " << i;
    }
  };
  expect_pairs("register_half", __half());
  expect_pairs("register_bfloat16", __nv_bfloat16());
  expect_clean();
}

TEST_F(Ptx, MmaIsAMatrixProduct) {
  expect_product<__half>("mma_half", 16);
  expect_product<__nv_bfloat16>("mma_bfloat16", 16);
  expect_product<float>("mma_tf32", 8);
  expect_product<__half>("mma_ldmatrix_half", 16);
  expect_product<__nv_bfloat16>("mma_ldmatrix_bfloat16", 16);
}

// All 256 codes as factors of one another, but for e4m3's two NaN.
TEST_F(Ptx, MmaOfEightBitsIsAMatrixProduct) {
  const auto expect_exact = [&]<class Sum>(const char* kernel, Sum, const auto& value_of) {
    std::vector<uint8_t> in;
    for (int i = 0; i < 24 * 32; ++i) in.push_back(static_cast<uint8_t>(i * 37 + i / 256));
    for (uint8_t& code : in) code = std::isnan(value_of(code)) ? 0x38 : code;
    const auto buffer = filled("codes", in);
    for (const int64_t way : {0, 1}) {
      SCOPED_TRACE(std::string(kernel) + (way == 0 ? " by registers" : " by ldmatrix"));
      device_.reset();
      const auto out = counted<Sum>("sums", 128, 1000);
      run_kernel(&device_, kernel, {}, out.data(), buffer.data(), way);
      expect_clean();
      for (int64_t row = 0; row < 16; ++row) {
        for (int64_t column = 0; column < 8; ++column) {
          auto sum = static_cast<double>(1000 + row * 8 + column);
          for (int64_t k = 0; k < 32; ++k)
            sum += value_of(in[static_cast<size_t>(row * 32 + k)]) *
                   value_of(in[static_cast<size_t>((16 + column) * 32 + k)]);
          EXPECT_EQ(out[row * 8 + column], static_cast<Sum>(sum)) << row << ", " << column;
        }
      }
      EXPECT_EQ(device_.report().matrix_multiplies, 1);
      EXPECT_EQ(device_.report().tensor_flops, 2 * 16 * 8 * 32);
    }
  };
  expect_exact("mma_int8", 0, [](uint8_t code) { return static_cast<double>(static_cast<int8_t>(code)); });
  expect_exact("mma_e4m3", 0.0F, [](uint8_t code) {
    __nv_fp8_e4m3 number;
    number.__x = code;
    return static_cast<double>(static_cast<float>(number));
  });
}

TEST_F(Ptx, MmaOfInt8Wraps) {
  std::vector<uint8_t> in(24 * 32);
  in[0] = in[16 * 32] = 1;  // A(0, 0) and B(0, 0)
  const auto buffer = filled("codes", in);
  const auto out = device_.buffer<int>("sums", 128);
  std::fill(out.begin(), out.end(), std::numeric_limits<int>::max());
  run_kernel(&device_, "mma_int8", {}, out.data(), buffer.data());
  EXPECT_EQ(out[0], std::numeric_limits<int>::min());
  EXPECT_EQ(out[1], std::numeric_limits<int>::max());
}

// What tensor cores without fp8 are given: the same numbers, NaN included, in both halves of both pairs.
TEST_F(Ptx, EveryE4m3IsAHalf) {
  std::vector<uint32_t> in;
  for (uint32_t code = 0; code < 256; ++code)
    in.push_back(code | (255 - code) << 8 | (code ^ 0x55U) << 16 | (code ^ 0xaaU) << 24);
  const auto buffer = filled("codes", in);
  const auto out = device_.buffer<uint32_t>("halves", 512);
  run_kernel(&device_, "e4m3_as_halves", {.block = {256, 1, 1}}, out.data(), buffer.data());
  expect_clean();
  for (size_t i = 0; i < in.size(); ++i) {
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const auto code = static_cast<uint8_t>(in[i] >> 8 * byte);
      const auto bits = static_cast<uint16_t>(out[static_cast<int64_t>(2 * i + byte / 2)] >> 16 * (byte % 2));
      const float made = __half2float(__half(__half_raw{bits}));
      const float number = __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
      EXPECT_TRUE(std::isnan(number) ? std::isnan(made) : made == number && std::signbit(made) == std::signbit(number))
          << "code " << int{code} << " is " << number << " and became " << made;
    }
  }
}

TEST_F(Ptx, Tf32HasTenBitsOfMantissa) {
  std::vector<float> in(128 + 64, 0.0F);
  in[0] = 1 + 0x1.8p-11F;  // A(0, 0): cut off 1, rounded 1 + 2^-10
  in[128] = 1;             // B(0, 0)
  const auto buffer = filled("in ones", in);
  for (const int64_t rounded : {0, 1}) {
    std::fill(out_.begin(), out_.end(), 0.0F);
    run_kernel(&device_, "mma_tf32", {}, out_.data(), buffer.data(), rounded);
    EXPECT_EQ(out_[0], rounded != 0 ? 1 + 0x1p-10F : 1.0F);
  }
  expect_clean();
}

TEST_F(Ptx, AnMmaNeedsTheWholeWarp) {
  run_kernel(&device_, "mma_31_lanes", {}, out_.data(), in_.data());
  expect_fault(FaultKind::warp_mismatch, "mma_31_lanes", "0x7fffffff");
  device_.reset();
  run_kernel(&device_, "mma_in_branches", {}, out_.data(), in_.data());
  expect_fault(FaultKind::warp_mismatch, "mma_in_branches", "at another such instruction");
  EXPECT_EQ(device_.report().matrix_multiplies, 0);
}

TEST_F(Ptx, LdmatrixGivesEachLaneItsElements) {
  const auto in = counted<uint16_t>("elements", 256);  // element e of row r is 8 r + e
  const auto out = device_.buffer<uint32_t>("registers", 128);
  for (const int64_t n : {0, 1, 2, 3}) {
    SCOPED_TRACE(n);
    run_kernel(&device_, "ldmatrix_registers", {}, out.data(), in.data(), n);
    expect_clean();
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t m = 0; m < (n < 2 ? 4 : 2); ++m) {
        const uint32_t row = 8 * m + lane / 4, column = lane % 4 * 2;
        const uint32_t plain = (8 * row + column + 1) << 16 | (8 * row + column);
        const uint32_t row_t = 8 * m + lane % 4 * 2, column_t = lane / 4;
        const uint32_t transposed = (8 * (row_t + 1) + column_t) << 16 | (8 * row_t + column_t);
        EXPECT_EQ(out[4 * lane + m], n % 2 == 0 ? plain : transposed) << "lane " << lane << ", matrix " << m;
      }
    }
  }
}

TEST_F(Ptx, RowsOfLdmatrixMeetInBanks) {
  const auto out = device_.buffer<uint32_t>("out words", 32);
  // Rows of 128 bytes: the 8 of a matrix all begin at bank 0. 16 bytes more, or pieces exchanged by the row, and none
  // meet.
  const std::vector<std::pair<int64_t, int>> ways_of_stride = {{64, 8}, {72, 1}, {-1, 1}, {32, 4},
                                                               {16, 2}, {8, 1},  {80, 2}};
  for (const auto& [stride, ways] : ways_of_stride) {
    device_.reset();
    run_kernel(&device_, "ldmatrix_stride", {}, out.data(), nullptr, stride);
    expect_clean();
    const Access read = at("ldmatrix_stride", Space::shared, Kind::load);
    EXPECT_EQ(read.requests, 1) << stride;
    EXPECT_EQ(read.lanes, 32) << stride;
    EXPECT_EQ(read.bytes, 16) << stride;
    EXPECT_EQ(read.wavefronts, 4 * ways) << stride;
    EXPECT_EQ(read.ideal_wavefronts, 4) << stride;
    EXPECT_EQ(read.worst_ways, ways) << stride;
  }
  run_kernel(&device_, "ldmatrix_pair", {}, out.data());
  expect_clean();
  EXPECT_EQ(at("ldmatrix_pair", Space::shared, Kind::load).lanes, 16);
  EXPECT_EQ(at("ldmatrix_pair", Space::shared, Kind::load).wavefronts, 2);
}

TEST_F(Ptx, MistakesWithLdmatrix) {
  const auto out = device_.buffer<uint32_t>("out words", 32);
  const auto in = counted<uint16_t>("elements", 256);
  run_kernel(&device_, "ldmatrix_race", {}, out.data());
  expect_race("ldmatrix_store", "ldmatrix_load", false);
  device_.reset();
  run_kernel(&device_, "ldmatrix_misaligned", {.shared_bytes = 1024}, out.data(), nullptr, 8);
  expect_fault(FaultKind::misaligned, "ldmatrix_misaligned", "16");
  device_.reset();
  run_kernel(&device_, "ldmatrix_outside", {.shared_bytes = 512}, out.data(), nullptr, 1);
  expect_fault(FaultKind::out_of_bounds, "ldmatrix_outside", "touches byte 512 of shared memory, which has 512");
  device_.reset();
  run_kernel(&device_, "ldmatrix_global", {}, out.data(), in.data());
  expect_fault(FaultKind::out_of_bounds, "ldmatrix_global", "not in shared memory");
}

TEST_F(Ptx, ACopyLandsAtItsWait) {
  const Launch block{.block = {128, 1, 1}};
  for (const int64_t missing : {0, 1, 2, 3}) {
    SCOPED_TRACE(missing);
    device_.reset();
    run_kernel(&device_, "copy_reverse", block, out_.data(), in_.data(), missing);
    if (missing == 0) {
      expect_clean();
      for (int i = 0; i < 128; ++i) EXPECT_EQ(out_[i], static_cast<float>(127 - i));
    } else {
      expect_race("copy", "copied_load", missing != 2);
      int64_t words = 0;
      for (const simt::Race& race : device_.report().races) words += race.count;
      EXPECT_EQ(words, 128) << "each word once, whichever of its two threads comes first";
      if (missing != 2) {
        for (int i = 0; i < 128; ++i) EXPECT_TRUE(std::isnan(out_[i])) << i << ": the data came without a wait";
      }
    }
  }
}

TEST_F(Ptx, AThreadWaitsForItsOwnCopyToo) {
  run_kernel(&device_, "copy_own", {}, out_.data(), in_.data(), 1);
  expect_clean();
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out_[i], static_cast<float>(i));
  run_kernel(&device_, "copy_own", {}, out_.data(), in_.data(), 0);
  expect_race("own_copy", "own_load", true);
  if (HasFatalFailure()) return;
  EXPECT_EQ(device_.report().races[0].first_thread.thread, device_.report().races[0].second_thread.thread);
}

TEST_F(Ptx, ACopyMustNotOverwriteWhatIsStillRead) {
  const Launch block{.block = {64, 1, 1}};
  run_kernel(&device_, "copy_pipeline", block, out_.data(), in_.data(), 5);
  expect_clean();
  for (int i = 0; i < 64; ++i) {
    float sum = 0;
    for (int step = 0; step < 5; ++step) sum += static_cast<float>(step * 64 + 63 - i);
    EXPECT_EQ(out_[i], sum);
  }
  run_kernel(&device_, "copy_pipeline_unordered", block, out_.data(), in_.data(), 5);
  EXPECT_FALSE(device_.report().races.empty());
  for (const simt::Race& race : device_.report().races) {
    EXPECT_EQ(race.first.line, line(race.in_flight ? "pipeline_copy" : "pipeline_load"));
    EXPECT_EQ(race.second.line, line(race.in_flight ? "pipeline_load" : "pipeline_copy"));
  }
}

TEST_F(Ptx, AWaitLeavesTheNewestGroupsUnderWay) {
  run_kernel(&device_, "copy_groups", {}, out_.data(), in_.data(), 1);
  expect_clean();
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out_[i], static_cast<float>(i + 32 + i));
  run_kernel(&device_, "copy_groups", {}, out_.data(), in_.data(), 2);
  expect_race("group_copy", "group_load", true);
}

TEST_F(Ptx, WhatTheSourceDoesNotFillIsZero) {
  const auto in = counted<uint8_t>("bytes", 512, 1), out = device_.buffer<uint8_t>("out bytes", 512);
  for (const int bytes : {4, 8, 16}) {
    for (int from_source = 0; from_source <= bytes; ++from_source) {
      SCOPED_TRACE(std::to_string(from_source) + " of " + std::to_string(bytes));
      device_.reset();
      run_kernel(&device_, "copy_part_" + std::to_string(bytes), {}, out.data(), in.data(), from_source);
      expect_clean();
      for (int i = 0; i < 32 * bytes; ++i) ASSERT_EQ(out[i], i % bytes < from_source ? in[i] : 0) << i;
      if (from_source != 0) {
        const Access read = at("part", Space::global, Kind::load);
        EXPECT_EQ(read.sectors, bytes);  // 32 lanes side by side
        EXPECT_EQ(read.requests, 1);
        EXPECT_EQ(read.bytes, bytes);
      }
      const Access written = at("part", Space::shared, Kind::store);
      EXPECT_EQ(written.wavefronts, bytes / 4);
      EXPECT_EQ(written.bytes, bytes);
    }
  }
  // Nothing is read where nothing is taken: the address may be anything.
  device_.reset();
  run_kernel(&device_, "copy_part_16", {}, out.data(), nullptr, 0);
  expect_clean();
  for (const Access& access : device_.report().accesses)
    EXPECT_FALSE(access.space == Space::global && access.kind == Kind::load);
  // The last lane's source ends after 3 of 16 bytes.
  const auto cut = counted<uint8_t>("cut", 31 * 16 + 3);
  run_kernel(&device_, "copy_part_16", {}, out.data(), cut.data(), 3);
  expect_clean();
}

TEST_F(Ptx, ACopyIsCountedOnItsLine) {
  const auto in = device_.buffer<float4>("in 16", 256), out = device_.buffer<float4>("out 16", 32);
  std::fill_n(reinterpret_cast<float*>(in.data()), 1024, 1.0F);
  for (const int64_t stride : {1, 2, 8}) {
    device_.reset();
    run_kernel(&device_, "copy_strided", {}, out.data(), in.data(), stride);
    expect_clean();
    const Access read = at("strided_copy", Space::global, Kind::load),
                 written = at("strided_copy", Space::shared, Kind::store);
    EXPECT_EQ(read.sectors, stride == 1 ? 16 : 32) << stride;
    EXPECT_EQ(read.buffer, "in 16");
    EXPECT_EQ(written.wavefronts, 4 * stride) << stride;
    EXPECT_EQ(written.ideal_wavefronts, 4);
    EXPECT_EQ(written.lanes, 32);
  }
}

TEST_F(Ptx, MistakesWithCopies) {
  const auto run = [&](int64_t n) {
    device_.reset();
    run_kernel(&device_, "copy_fault", {.shared_bytes = 512}, out_.data(), in_.data(), n);
  };
  run(0);
  expect_fault(FaultKind::out_of_bounds, "source_ends", "touches byte 4096 of buffer in, which has 4096");
  run(1);
  expect_fault(FaultKind::out_of_bounds, "target_ends", "touches byte 512 of shared memory, which has 512");
  run(2);
  expect_fault(FaultKind::out_of_bounds, "not_shared", "memory that is not shared");
  run(3);
  expect_fault(FaultKind::misaligned, "misaligned_source", "16");
  run(4);
  expect_fault(FaultKind::misaligned, "misaligned_target", "16");
  run(5);
  expect_fault(FaultKind::out_of_bounds, "too_much", "takes 20");
  // And the next launch is none the worse for it.
  device_.reset();
  run_kernel(&device_, "copy_own", {}, out_.data(), in_.data(), 1);
  expect_clean();
}

}  // namespace
}  // namespace tenfold::test
