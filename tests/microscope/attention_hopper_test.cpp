// Barriers with a number, boxes from a stack of matrices and wgmma with its left operand in registers, under the
// microscope: against plain ones, and every way to use them too early or wrongly.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/microscope/hopper.h"
#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::FaultKind;
using simt::Kind;
using simt::Space;

class AttentionHopper : public MarkedLines {
 protected:
  AttentionHopper() : MarkedLines("attention_kernels.cuh") {}

  void run(const char* kernel, uint32_t threads, int64_t n, void* out, const void* in, size_t shared_bytes = 0) {
    device_.reset();
    run_kernel(&device_, kernel, {.block = {threads, 1, 1}, .shared_bytes = shared_bytes}, out, in, n);
  }

  simt::Buffer<float> out_ = counted<float>("out", 1024), in_ = counted<float>("in", 1024);
};

TEST_F(AttentionHopper, WhoWaitsAtANamedBarrierKnowsWhatCameBeforeTheArrivals) {
  for (const int64_t n : {0, 6}) {
    run("named_hand_over", 96, n, out_.data(), in_.data());
    expect_clean(std::to_string(n));
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out_[i], static_cast<float>(31 - i));
  }
  for (const int64_t n : {1, 3}) {
    run("named_hand_over", 96, n, out_.data(), in_.data());
    EXPECT_FALSE(races_between("named_store", "named_load").empty()) << n;
  }
}

TEST_F(AttentionHopper, MistakesWithNamedBarriers) {
  run("named_hand_over", 96, 1, out_.data(), in_.data());
  expect_a_fault(FaultKind::divergent_barrier, "named_arrive", "32 of 64 threads have come to named barrier 1");
  run("named_hand_over", 96, 2, out_.data(), in_.data());
  expect_a_fault(FaultKind::deadlock, "named_wait", "thread 32 waits for named barrier 1: 32 of 64 threads never come");
  run("named_hand_over", 96, 4, out_.data(), in_.data());
  expect_a_fault(FaultKind::divergent_barrier, "named_wait", "named barrier 1 is for 96 threads here and for 64 at");
  run("named_hand_over", 96, 5, out_.data(), in_.data());
  expect_a_fault(FaultKind::deadlock, "named_wait", "named barrier 1: 32 of 64 threads never come");
  run("named_hand_over", 96, 7, out_.data(), in_.data());
  expect_a_fault(FaultKind::divergent_barrier, "named_wrong", "48 threads are not whole warps");
  run("named_hand_over", 96, 8, out_.data(), in_.data());
  expect_a_fault(FaultKind::divergent_barrier, "named_wrong", "16 is not the number of a barrier");
  run("named_hand_over", 96, 0, out_.data(), in_.data());
  expect_clean("the next launch");
}

TEST_F(AttentionHopper, TurnsFollowEachOther) {
  for (const int64_t rounds : {1, 2, 7}) {
    run("named_rounds", 64, rounds, out_.data(), in_.data());
    expect_clean();
    for (int i = 0; i < 32; ++i) {
      float sum = 0;
      for (int64_t round = 0; round < rounds; ++round) sum += static_cast<float>(round * 32 + 31 - i);
      EXPECT_EQ(out_[i], sum);
    }
  }
  simt::Device device;
  run_kernel(&device, "named_rounds", {.block = {64, 1, 1}}, out_.data(), in_.data(), 7);
  int64_t waits = 0, arrivals = 0;
  const simt::Report report = device.report();
  for (const simt::Operation& operation : report.kernels.at(0).operations) {
    waits += operation.name == "named barrier wait" ? operation.count : 0;
    arrivals += operation.name == "named barrier arrival" ? operation.count : 0;
  }
  EXPECT_EQ(waits, 7 + 6) << "of one warp each";
  EXPECT_EQ(arrivals, 7 + 6);
  run("named_rounds_unordered", 64, 2, out_.data(), in_.data());
  EXPECT_FALSE(device_.report().clean());
}

TEST_F(AttentionHopper, ABoxOfAStackEndsWithItsMatrix) {
  constexpr int kRows = 20, kMatrices = 3;
  const auto stack = counted<uint16_t>("stack", 64 * kRows * kMatrices, 1);
  const auto words = device_.buffer<uint16_t>("words", 1024);
  const auto map = device_.buffer<CUtensorMap>("map", 1);
  const auto encode = [&](uint32_t matrices_of_box, uint64_t matrix_bytes) {
    const cuuint64_t size[] = {64, kRows, kMatrices}, strides[] = {128, matrix_bytes};
    const cuuint32_t box[] = {64, 16, matrices_of_box}, steps[] = {1, 1, 1};
    return simt::encode_tensor_map(map.data(), CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, stack.data(), size, strides, box,
                                   steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                   CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_EQ(encode(2, 128 * kRows), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(encode(1, 128 * kRows + 8), CUDA_ERROR_INVALID_VALUE);
  const cuuint64_t size[] = {64, kRows, kMatrices}, strides[] = {128, 128 * kRows};
  const cuuint32_t box[] = {32, 16, 1}, steps[] = {1, 1, 1};
  EXPECT_EQ(simt::encode_tensor_map(map.data(), CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, stack.data(), size, strides, box,
                                    steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(encode(1, 128 * kRows), CUDA_SUCCESS);
  for (const auto& [z, y] : std::vector<std::pair<int, int>>{{0, 0}, {1, 3}, {1, 16}, {2, 16}, {3, 0}}) {
    run("box_of_stack", 32, z * 256 + y, words.data(), map.data(), 8192);
    expect_clean();
    int64_t rows = 0;
    for (int row = 0; row < 16; ++row) {
      const bool inside = y + row < kRows && z < kMatrices;
      rows += inside;
      for (int column = 0; column < 64; ++column) {
        ASSERT_EQ(words[row * 64 + column], inside ? 1 + (z * kRows + y + row) * 64 + column : 0)
            << z << ": " << row << ", " << column;
      }
    }
    const auto reads = accesses_at("stack_box", Space::global, Kind::load);
    ASSERT_EQ(reads.size(), rows != 0 ? 1U : 0U);
    if (rows != 0) EXPECT_EQ(reads[0].sectors, 4 * rows);
  }
}

template <class T>
struct Operands {
  std::vector<T> in;
  std::vector<double> values;
  Operands() {
    for (int i = 0; i < 1024 + 16 * 128; ++i) {  // few bits, so that sums are exact
      values.push_back((i % 3 == 0 ? -1 : 1) * (1 + i % 61) / 4.0);
      in.push_back(T(static_cast<float>(values.back())));
    }
  }
};

TEST_F(AttentionHopper, WgmmaWithItsLeftOperandInRegistersIsAMatrixProduct) {
  const auto expect_product = [&]<class T>(T, const char* kernel, int64_t columns, int64_t n) {
    SCOPED_TRACE(std::string(kernel) + " " + std::to_string(n));
    const Operands<T> operands;
    const auto buffer = filled("operands", operands.in);
    const auto out = counted<float>("sums", 64 * columns);
    run(kernel, 128, n, out.data(), buffer.data(), 1024 + 8192 + 16384);
    expect_clean();
    for (int64_t row = 0; row < 64; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        auto sum = static_cast<double>(row * columns + column);
        for (int64_t k = 0; k < 16; ++k) {
          sum += operands.values[static_cast<size_t>(row * 16 + k)] *
                 operands.values[static_cast<size_t>(1024 + k * columns + column)];
        }
        ASSERT_EQ(static_cast<double>(out[row * columns + column]), sum) << row << ", " << column;
      }
    }
    EXPECT_EQ(device_.report().tensor_flops, 2 * 64 * columns * 16);
    int64_t bytes = 0, wavefronts = 0;
    for (const simt::Access& access : device_.report().accesses) {
      if (access.space != Space::shared || access.kind != Kind::load) continue;
      bytes += access.bytes, wavefronts += access.wavefronts;
    }
    EXPECT_EQ(bytes, columns * 32 + (n == 1 ? 64 * 32 : 0)) << "what lies in registers is not read from shared memory";
    EXPECT_EQ(wavefronts, columns / 4 + (n == 1 ? 16 : 0));
  };
  expect_product(__half(), "wgmma_64_half", 64, 0);
  expect_product(__nv_bfloat16(), "wgmma_64_bfloat16", 64, 0);
  for (const int64_t n : {0, 1}) {
    expect_product(__half(), "wgmma_128_half", 128, n);
    expect_product(__nv_bfloat16(), "wgmma_128_bfloat16", 128, n);
  }
}

TEST_F(AttentionHopper, MistakesWithOperandsInRegisters) {
  const auto mistake = [&](int64_t n) { run("wgmma_operand_mistake", 128, n, out_.data(), nullptr, 9216); };
  for (const int64_t n : {0, 1}) {
    mistake(n);
    expect_clean(std::to_string(n));
    for (int i = 0; i < 128; ++i) EXPECT_EQ(out_[i], 16.0F);
  }
  mistake(2);
  expect_a_fault(FaultKind::in_flight, "operand_early", "changes an operand of wgmma before wgmma.wait_group");
  mistake(3);
  expect_a_fault(FaultKind::in_flight, "operand_unsettled", "changes an operand of wgmma before wgmma_settle");
  mistake(4);
  expect_a_fault(FaultKind::in_flight, "settled_early", "this operand may still be read");
  mistake(5);
  expect_a_fault(FaultKind::in_flight, "second_product", "its sums were touched since");
}

}  // namespace
}  // namespace tenfold::test
