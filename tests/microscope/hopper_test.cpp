// mbarriers, TMA and wgmma under the microscope: boxes and products against plain ones, and every way to use either too
// early, too late or wrongly.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>

#include "common/microscope/hopper.h"
#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::FaultKind;
using simt::Kind;
using simt::Report;
using simt::Space;

class Hopper : public MarkedLines {
 protected:
  Hopper() : MarkedLines("hopper_kernels.cuh") {}

  void run(const char* kernel, uint32_t threads, int64_t n, void* out, const void* in, size_t shared_bytes = 0) {
    SCOPED_TRACE(std::string(kernel) + " " + std::to_string(n));
    device_.reset();
    run_kernel(&device_, kernel, {.block = {threads, 1, 1}, .shared_bytes = shared_bytes}, out, in, n);
  }
  /// Races between these lines and no others, of which one at least is with what is in flight, or none.
  void expect_race(const std::string& a, const std::string& b, bool in_flight) const {
    const std::vector<simt::Race> races = races_between(a, b);
    ASSERT_FALSE(races.empty()) << "no race between " << a << " and " << b;
    EXPECT_EQ(std::ranges::any_of(races, &simt::Race::in_flight), in_flight);
  }

  simt::Buffer<float> out_ = counted<float>("out", 1024), in_ = counted<float>("in", 1024);
};

// --- mbarrier
// ----------------------------------------------------------------------------------------------------------
TEST_F(Hopper, WhoHasWaitedKnowsWhatCameBeforeTheArrivals) {
  for (const int64_t n : {0, 6}) {
    run("mbarrier_hand_over", 64, n, out_.data(), in_.data());
    expect_clean();
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out_[i], static_cast<float>(31 - i));
  }
  for (const int64_t n : {1, 3, 5}) {
    run("mbarrier_hand_over", 64, n, out_.data(), in_.data());
    expect_race("handed_store", "handed_load", false);
    EXPECT_TRUE(device_.report().faults.empty());
  }
  run("mbarrier_chain", 96, 0, out_.data(), in_.data());
  expect_clean();
  run("mbarrier_chain", 96, 1, out_.data(), in_.data());
  expect_race("chain_store", "chain_load", false);
}

TEST_F(Hopper, TheInitialisationIsAStore) {
  run("mbarrier_hand_over", 64, 4, out_.data(), in_.data());
  const Report report = device_.report();
  ASSERT_FALSE(report.races.empty());
  for (const simt::Race& race : report.races) EXPECT_EQ(race.first.line, line("init")) << race.second.line;
}

TEST_F(Hopper, AWaitThatNobodyEndsIsADeadlockAndSaysWhatIsMissing) {
  run("mbarrier_hand_over", 64, 2, out_.data(), in_.data());
  expect_a_fault(FaultKind::deadlock, "full_wait", "thread 32 waits for phase 0 (parity 0) of the mbarrier at ");
  expect_a_fault(FaultKind::deadlock, "full_wait", ": 1 of 33 arrivals never come");
  run("mbarrier_rounds_unanswered", 64, 3, out_.data(), in_.data());
  expect_a_fault(FaultKind::deadlock, "empty_wait", "thread 0 waits for phase 0 (parity 0)");
  expect_a_fault(FaultKind::deadlock, "empty_wait", ": 32 of 32 arrivals never come");
  EXPECT_EQ(device_.report().faults[0].count, 32);
  run("mbarrier_hand_over", 64, 0, out_.data(), in_.data());
  expect_clean("the next launch");
}

TEST_F(Hopper, PhasesComeInTurn) {
  for (const int64_t rounds : {1, 2, 7}) {
    run("mbarrier_rounds", 64, rounds, out_.data(), in_.data());
    expect_clean();
    for (int i = 0; i < 32; ++i) {
      float sum = 0;
      for (int64_t round = 0; round < rounds; ++round) sum += static_cast<float>(round * 32 + 31 - i);
      EXPECT_EQ(out_[i], sum);
    }
  }
  run("mbarrier_rounds_unordered", 64, 2, out_.data(), in_.data());
  EXPECT_FALSE(device_.report().clean());
}

TEST_F(Hopper, MistakesWithMbarriers) {
  const auto words = device_.buffer<uint64_t>("words", 4);
  run("mbarrier_mistake", 32, 0, words.data(), nullptr);
  expect_a_fault(FaultKind::mbarrier, "not_initialised", "was not initialised");
  run("mbarrier_mistake", 32, 1, words.data(), nullptr);
  expect_a_fault(FaultKind::mbarrier, "twice", "a second time");
  run("mbarrier_mistake", 32, 2, words.data(), nullptr);
  expect_a_fault(FaultKind::mbarrier, "no_arrivals", "0 arrivals are not in 1 .. 1048575");
  run("mbarrier_mistake", 32, 3, words.data(), nullptr);
  expect_a_fault(FaultKind::mbarrier, "too_often", "more than its 1 arrivals in a phase, which 16 bytes hold up");
  run("mbarrier_mistake", 32, 4, words.data(), nullptr);
  expect_a_fault(FaultKind::out_of_bounds, "not_shared_barrier", "not in shared memory");
}

// --- TMA
// ---------------------------------------------------------------------------------------------------------------
/// A matrix of 16-bit elements, of which each says where it is, and its map of boxes of 64 x 16.
class Boxes : public Hopper {
 protected:
  static constexpr int kColumns = 104, kRows = 40;  // the last boxes reach over both edges
  static constexpr size_t kShared = 8192;

  CUresult encode(CUtensorMap* to, CUtensorMapSwizzle swizzle, uint64_t columns = kColumns,
                  uint64_t row_bytes = kColumns * 2, uint32_t box_columns = 64, uint32_t step = 1) {
    const cuuint64_t size[] = {columns, kRows}, strides[] = {row_bytes};
    const cuuint32_t box[] = {box_columns, 16}, steps[] = {step, 1};
    return simt::encode_tensor_map(to, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, matrix_.data(), size, strides, box, steps,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  void run_box(const char* kernel, int64_t n) { run(kernel, 32, n, words_.data(), map_.data(), kShared); }

  simt::Buffer<uint16_t> matrix_ = counted<uint16_t>("matrix", kColumns* kRows, 1),
                         words_ = device_.buffer<uint16_t>("words", 1024);
  simt::Buffer<CUtensorMap> map_ = device_.buffer<CUtensorMap>("map", 1);
};

TEST_F(Boxes, LieInSharedMemoryAsTheSwizzleSaysWithZerosOutside) {
  for (const auto swizzle : {CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_NONE}) {
    ASSERT_EQ(encode(map_.data(), swizzle), CUDA_SUCCESS);
    for (const auto& [x, y] :
         std::vector<std::pair<int, int>>{{0, 0}, {64, 32}, {-8, -3}, {40, 24}, {-64, 0}, {3, 40}}) {
      SCOPED_TRACE(std::to_string(x) + ", " + std::to_string(y));
      run_box("box_at", (y + 1000) * 65536 + x + 1000);
      expect_clean();
      int64_t sectors = 0;
      for (int row = 0; row < 16; ++row) {
        std::vector<int64_t> of_row;
        for (int column = 0; column < 64; ++column) {
          const int at_x = x + column, at_y = y + row;
          const bool inside = at_x >= 0 && at_x < kColumns && at_y >= 0 && at_y < kRows;
          const int packet = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? column / 8 : column / 8 ^ row % 8;
          ASSERT_EQ(words_[row * 64 + packet * 8 + column % 8], inside ? 1 + at_y * kColumns + at_x : 0)
              << row << ", " << column;
          if (inside) of_row.push_back((at_y * kColumns + at_x) * 2 / 32);
        }
        if (!of_row.empty()) sectors += of_row.back() - of_row.front() + 1;
      }
      const auto reads = accesses_at("box", Space::global, Kind::load),
                 writes = accesses_at("box", Space::shared, Kind::store);
      ASSERT_EQ(writes.size(), 1U);
      EXPECT_EQ(writes[0].bytes, 2048);
      EXPECT_EQ(writes[0].wavefronts, 16);
      ASSERT_EQ(reads.size(), sectors != 0 ? 1U : 0U) << "a box outside of the tensor reads nothing";
      // Rows of 208 bytes end in the middle of a sector, where two rows of a box may meet.
      if (!reads.empty()) EXPECT_LE(reads[0].sectors, sectors);
      if (x == 0) EXPECT_EQ(reads[0].sectors, 16 * 4 + 8) << "every second row begins in the middle of a sector";
    }
  }
}

TEST_F(Boxes, MistakesWithCopies) {
  ASSERT_EQ(encode(map_.data(), CU_TENSOR_MAP_SWIZZLE_128B), CUDA_SUCCESS);
  run_box("box_mistake", 0);
  expect_clean();
  run_box("box_mistake", 1);
  expect_race("bad_box", "box_load", true);
  expect_a_fault(FaultKind::in_flight, "bad_box", "nobody has waited for its phase");
  run_box("box_mistake", 2);
  EXPECT_TRUE(device_.report().faults.empty());
  ASSERT_FALSE(device_.report().races.empty()) << "31 lanes have not waited";
  run_box("box_mistake", 3);
  expect_a_fault(FaultKind::mbarrier, "bad_box", "no fence.mbarrier_init");
  run_box("box_mistake", 4);
  expect_a_fault(FaultKind::deadlock, "box_wait", ": 1024 bytes more come than announced");
  run_box("box_mistake", 5);
  expect_a_fault(FaultKind::deadlock, "box_wait", ": 2048 announced bytes that no copy brings");
  run_box("box_mistake", 6);
  expect_a_fault(FaultKind::misaligned, "bad_box", "repeats after 1024 bytes");
  run_box("box_mistake", 7);
  expect_race("bad_box", "box_load", true);
  run_box("box_mistake", 8);
  expect_a_fault(FaultKind::in_flight, "bad_box", "the block ends while this copy of 2048 bytes may be under way");
  run_box("box_mistake", 9);
  expect_a_fault(FaultKind::out_of_bounds, "bad_box", "of shared memory, which has 8192");
  run_box("box_mistake", 10);
  expect_race("bad_box", "box_load", true);
  std::fill_n(reinterpret_cast<uint8_t*>(map_.data()), sizeof(CUtensorMap), uint8_t{0});
  run_box("box_mistake", 0);
  expect_a_fault(FaultKind::bad_operand, "bad_box", "not made by cuTensorMapEncodeTiled");
}

TEST_F(Boxes, MapsThatTheDriverRefuses) {
  CUtensorMap map;
  EXPECT_EQ(encode(&map, CU_TENSOR_MAP_SWIZZLE_128B), CUDA_SUCCESS);
  EXPECT_EQ(encode(&map, CU_TENSOR_MAP_SWIZZLE_128B, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(&map, CU_TENSOR_MAP_SWIZZLE_128B, kColumns, 200), CUDA_ERROR_INVALID_VALUE) << "16 | row";
  EXPECT_EQ(encode(&map, CU_TENSOR_MAP_SWIZZLE_128B, kColumns, 208, 128), CUDA_ERROR_INVALID_VALUE) << "256 bytes";
  EXPECT_EQ(encode(&map, CU_TENSOR_MAP_SWIZZLE_NONE, kColumns, 208, 60), CUDA_ERROR_INVALID_VALUE) << "16 | box";
  EXPECT_EQ(encode(&map, CU_TENSOR_MAP_SWIZZLE_128B, kColumns, 208, 32), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(encode(&map, CU_TENSOR_MAP_SWIZZLE_128B, kColumns, 208, 64, 2), CUDA_ERROR_NOT_SUPPORTED);
}

// --- wgmma
// -------------------------------------------------------------------------------------------------------------
TEST_F(Hopper, WgmmaIsAMatrixProductInEveryLayout) {
  const auto expect_product = [&]<class T>(const char* kernel, T) {
    std::vector<T> in;
    std::vector<double> values;
    for (int i = 0; i < 192 * 16; ++i) {  // few bits, so that sums are exact
      values.push_back((i % 3 == 0 ? -1 : 1) * (1 + i % 61) / 4.0);
      in.push_back(T(static_cast<float>(values.back())));
    }
    const auto buffer = filled("operands", in);
    for (int64_t layouts = 0; layouts < 16; ++layouts) {
      const auto out = counted<float>("sums", 64 * 128);
      run(kernel, 128, layouts, out.data(), buffer.data(), 1024 + 8192 + 16384);
      expect_clean();
      for (int64_t row = 0; row < 64; ++row) {
        for (int64_t column = 0; column < 128; ++column) {
          auto sum = static_cast<double>(row * 128 + column);
          for (int64_t k = 0; k < 16; ++k)
            sum += values[static_cast<size_t>(row * 16 + k)] * values[static_cast<size_t>(1024 + k * 128 + column)];
          ASSERT_EQ(static_cast<double>(out[row * 128 + column]), sum) << layouts << ": " << row << ", " << column;
        }
      }
      EXPECT_EQ(device_.report().matrix_multiplies, 1);
      EXPECT_EQ(device_.report().tensor_flops, 2 * 64 * 128 * 16);
      const auto reads = accesses_at("product", Space::shared, Kind::load);
      ASSERT_EQ(reads.size(), 2U);
      EXPECT_EQ(reads[0].bytes + reads[1].bytes, 64 * 32 + 128 * 32);
      EXPECT_EQ(reads[0].wavefronts + reads[1].wavefronts, 16 + 32) << "no conflict in any canonical layout";
    }
  };
  expect_product("wgmma_product_half", __half());
  expect_product("wgmma_product_bfloat16", __nv_bfloat16());
}

TEST_F(Hopper, MistakesWithWgmma) {
  const auto mistake = [&](int64_t n, uint32_t threads = 128) {
    run("wgmma_mistake", threads, n, out_.data(), nullptr, 17408);
  };
  mistake(0);
  expect_clean();
  for (int i = 0; i < 128; ++i) EXPECT_EQ(out_[i], 16.0F);
  mistake(1);
  expect_a_fault(FaultKind::in_flight, "multiply", "no wgmma.fence came before");
  mistake(2);
  expect_a_fault(FaultKind::in_flight, "multiply", "its sums were touched since");
  mistake(3);
  expect_a_fault(FaultKind::in_flight, "sum_load", "before wgmma.wait_group");
  for (int i = 0; i < 128; ++i) EXPECT_NE(out_[i], 16.0F) << "the sums came without a wait";
  mistake(4);
  expect_a_fault(FaultKind::in_flight, "settle", "no wgmma.wait_group has waited");
  mistake(5);
  expect_a_fault(FaultKind::in_flight, "sum_load", "before wgmma_settle");
  mistake(6);
  expect_a_fault(FaultKind::warp_mismatch, "multiply", "start another wgmma");
  mistake(7);
  expect_race("multiply", "operand_store", true);
  mistake(8);
  expect_a_fault(FaultKind::bad_operand, "multiply", "the descriptor of B reaches shared address");
  mistake(9);
  expect_a_fault(FaultKind::in_flight, "multiply", "the block ends while this product may be under way");
  mistake(10);
  expect_a_fault(FaultKind::deadlock, "product_wait", "32 of the 128 threads of its warpgroup have not committed");
  mistake(11);
  expect_a_fault(FaultKind::in_flight, "sum_load", "before wgmma.wait_group");
  mistake(12);
  EXPECT_TRUE(device_.report().races.empty());
  expect_a_fault(FaultKind::in_flight, "multiply", "with no fence.proxy.async in between");
  mistake(13);
  expect_clean();
  mistake(14);
  expect_race("multiply", "late_store", false);
  mistake(15);
  expect_clean();
  mistake(0, 96);
  expect_a_fault(FaultKind::warp_mismatch, "multiply", "needs the 128 threads of a warpgroup");
}

}  // namespace
}  // namespace tenfold::test
