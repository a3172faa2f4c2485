// Clusters under the microscope: shared memory of other blocks, barriers across blocks, multicast and stores by TMA;
// and every way to touch a block too early, too late or where it is not.
#include <cuda.h>

#include <algorithm>

#include "common/microscope/hopper.h"
#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::FaultKind;
using simt::Kind;
using simt::Report;
using simt::Space;

class Cluster : public MarkedLines {
 protected:
  Cluster() : MarkedLines("cluster_kernels.cuh") {}

  void run(const char* kernel, int64_t n, void* out, const void* in, uint32_t blocks = 2, uint32_t cluster = 2) {
    SCOPED_TRACE(std::string(kernel) + " " + std::to_string(n));
    device_.reset();
    run_kernel(&device_, kernel, {.grid = {blocks, 1, 1}, .shared_bytes = 4096, .cluster = cluster}, out, in, n);
  }
  /// A race between these lines, and none between others.
  void expect_race(const std::string& a, const std::string& b) const {
    EXPECT_FALSE(races_between(a, b).empty()) << "no race between " << a << " and " << b;
  }

  simt::Buffer<uint32_t> out_ = counted<uint32_t>("out", 512), in_ = counted<uint32_t>("in", 512, 7);
};

TEST_F(Cluster, BlocksReadWhatTheNextOneHasWritten) {
  for (const char* kernel : {"cluster_hand_on", "cluster_hand_on_static"}) {
    for (const uint32_t cluster : {1, 2, 4, 8}) {  // two clusters, one after the other
      run(kernel, 100 + cluster, out_.data(), in_.data(), 2 * cluster, cluster);
      expect_clean();
      EXPECT_EQ(device_.report().blocks, 2 * cluster);
      for (uint32_t i = 0; i < 2 * cluster * 32; ++i) {
        const uint32_t block = i / 32, next = block / cluster * cluster + (block + 1) % cluster;
        ASSERT_EQ(out_[i], in_[next * 32 + i % 32]) << kernel << ", cluster of " << cluster << ": " << i;
      }
    }
    run(kernel, 10, out_.data(), in_.data());
    expect_clean();
    for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out_[i], in_[(i + 32) % 64]);
  }
}

TEST_F(Cluster, MistakesWithSharedMemoryOfOthers) {
  for (const char* kernel : {"cluster_hand_on", "cluster_hand_on_static"}) {
    const auto mistake = [&](int64_t n) { run(kernel, n, out_.data(), in_.data()); };
    mistake(0);
    expect_clean();
    mistake(1);
    expect_race("own_store", "remote_load");
    expect_a_fault(FaultKind::cluster, "remote_load", "of the cluster may not have begun");
    mistake(2);
    expect_a_fault(FaultKind::block_ended, "remote_load", "");
    EXPECT_TRUE(device_.report().races.empty());
    mistake(3);
    expect_a_fault(FaultKind::cluster, "remote_load", "an address of block 2 of a cluster of 2");
    mistake(5);
    expect_race("late_store", "remote_load");
    mistake(9);
    expect_race("unordered_store", "unordered_own");
    mistake(11);
    expect_race("remote_store", "own_load");
    mistake(12);
    expect_a_fault(FaultKind::misaligned, "remote_load", "that 4 does not divide");
  }
  run("cluster_hand_on", 4, out_.data(), in_.data());
  expect_a_fault(FaultKind::out_of_bounds, "remote_load", "of shared memory of block 0, which has 4096");
}

TEST_F(Cluster, ItsBarrier) {
  const auto mistake = [&](int64_t n) { run("cluster_hand_on", n, out_.data(), in_.data()); };
  mistake(6);
  expect_a_fault(FaultKind::cluster, "arrive_twice", "has not waited in between");
  mistake(7);
  expect_a_fault(FaultKind::cluster, "wait_alone", "has not arrived");
  run("cluster_mbarriers", 2, out_.data(), in_.data());
  expect_a_fault(FaultKind::deadlock, "read_wait", "1 of 33 arrivals never come");
  mistake(0);
  expect_clean("the next launch");
}

TEST_F(Cluster, ABlockThatHasEndedIsNotWaitedFor) {
  run("cluster_hand_on", 8, out_.data(), in_.data());
  for (const simt::Fault& fault : device_.report().faults) EXPECT_NE(fault.kind, FaultKind::deadlock) << fault.text;
  expect_a_fault(FaultKind::block_ended, "remote_load", "block 1 of the cluster has ended");
}

TEST_F(Cluster, MbarriersOfOthers) {
  const auto mistake = [&](int64_t n) { run("cluster_mbarriers", n, out_.data(), in_.data()); };
  mistake(0);
  expect_clean();
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out_[i], in_[31 - i]);
  mistake(1);
  expect_a_fault(FaultKind::block_ended, "answer", "block 0 of the cluster");
  expect_a_fault(FaultKind::block_ended, "told_load", "block 0 of the cluster");
  mistake(2);
  expect_a_fault(FaultKind::deadlock, "read_wait",
                 "thread 0 of block 0 waits for phase 0 (parity 0) of the mbarrier at ");
  mistake(3);
  expect_race("told_store", "told_load");
  mistake(4);
  expect_a_fault(FaultKind::cluster, "tell", "block 1 of the cluster may not have begun");
  mistake(5);
  expect_a_fault(FaultKind::cluster, "tell", "block 2 of a cluster of 2");
  expect_a_fault(FaultKind::deadlock, "ready_wait", "of block 1 waits for phase 0");
  mistake(6);
  expect_race("told_store", "told_load");
}

TEST_F(Cluster, LaunchesThatNoGpuTakes) {
  EXPECT_THROW(run("cluster_hand_on", 0, out_.data(), in_.data(), 3, 2), std::invalid_argument);
  EXPECT_THROW(run("cluster_hand_on", 0, out_.data(), in_.data(), 9, 9), std::invalid_argument);
  EXPECT_THROW(run("cluster_hand_on", 0, out_.data(), in_.data(), 2, 0), std::invalid_argument);
}

/// Boxes of 64 x 16 of a matrix of 16-bit elements.
class ClusterBoxes : public Cluster {
 protected:
  static constexpr int kColumns = 104, kRows = 40;

  ClusterBoxes() {
    const cuuint64_t size[] = {kColumns, kRows}, strides[] = {kColumns * 2};
    const cuuint32_t box[] = {64, 16}, steps[] = {1, 1};
    EXPECT_EQ(simt::encode_tensor_map(map_.data(), CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, matrix_.data(), size, strides,
                                      box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
              CUDA_SUCCESS);
  }
  static int64_t place_of(int64_t row, int64_t column) { return row * 64 + (column / 8 ^ row % 8) * 8 + column % 8; }

  simt::Buffer<uint16_t> matrix_ = counted<uint16_t>("matrix", kColumns* kRows, 1),
                         words_ = counted<uint16_t>("words", 4096);
  simt::Buffer<CUtensorMap> map_ = device_.buffer<CUtensorMap>("map", 1);
};

TEST_F(ClusterBoxes, AMulticastIsReadOnceAndWrittenInEachBlock) {
  run("cluster_multicast", 0, words_.data(), map_.data());
  expect_clean();
  for (int64_t block = 0; block < 2; ++block) {
    for (int64_t round = 0; round < 2; ++round) {
      for (int64_t row = 0; row < 16; ++row) {
        for (int64_t column = 0; column < 64; ++column) {
          ASSERT_EQ(words_[(block * 2 + round) * 1024 + place_of(row, column)], 1 + row * kColumns + column + 8 * round)
              << block << ", " << round << ": " << row << ", " << column;
        }
      }
    }
  }
  const auto reads = accesses_at("multicast", Space::global, Kind::load),
             writes = accesses_at("multicast", Space::shared, Kind::store);
  ASSERT_EQ(reads.size(), 1U);
  ASSERT_EQ(writes.size(), 1U);
  EXPECT_EQ(reads[0].requests, 2);
  EXPECT_EQ(writes[0].requests, 4);
  EXPECT_EQ(writes[0].wavefronts, 4 * 16);
}

TEST_F(ClusterBoxes, MistakesWithMulticast) {
  const auto mistake = [&](int64_t n) { run("cluster_multicast", n, words_.data(), map_.data()); };
  mistake(1);
  expect_a_fault(FaultKind::deadlock, "multicast_wait", "of block 1 waits for phase 0");
  expect_a_fault(FaultKind::deadlock, "multicast_wait", ": 2048 announced bytes that no copy brings");
  expect_a_fault(FaultKind::deadlock, "cluster_wait",
                 "thread 0 of block 0 waits for the cluster's barrier, where 32 of 64 threads do not arrive");
  mistake(2);
  expect_a_fault(FaultKind::cluster, "multicast", "the mask 0x0005 names no block, or one that a cluster of 2 has not");
  mistake(9);
  expect_a_fault(FaultKind::cluster, "multicast", "the mask 0x0000 names no block");
  mistake(3);
  expect_a_fault(FaultKind::deadlock, "multicast_wait", ": 1024 bytes more come than announced");
  mistake(4);
  expect_a_fault(FaultKind::cluster, "multicast", "block 1 of the cluster may not have begun");
  // The second copy comes before block 1 has read the first, or even before that is there.
  for (const int64_t n : {5, 6, 7, 8}) {
    mistake(n);
    const Report report = device_.report();
    ASSERT_FALSE(report.races.empty()) << n;
    for (const simt::Race& race : report.races) {
      for (const int of_race : {race.first.line, race.second.line})
        EXPECT_TRUE(of_race == line("multicast") || of_race == line("multicast_load")) << n << ": " << of_race;
    }
  }
}

TEST_F(ClusterBoxes, StoresReachTheTensorAndNothingElse) {
  for (const auto& [x, y] :
       std::vector<std::pair<int, int>>{{0, 0}, {64, 32}, {-8, -3}, {40, 24}, {-64, 0}, {8, 40}, {48, 8}}) {
    SCOPED_TRACE(std::to_string(x) + ", " + std::to_string(y));
    std::ranges::fill(matrix_, uint16_t{0});
    run("box_stored_at", (y + 1000) * 65536 + x + 1000, nullptr, map_.data(), 1, 1);
    expect_clean();
    int64_t rows = 0;
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const int in_x = column - x, in_y = row - y;
        const bool inside = in_x >= 0 && in_x < 64 && in_y >= 0 && in_y < 16;
        ASSERT_EQ(matrix_[row * kColumns + column], inside ? 1 + place_of(in_y, in_x) : 0) << row << ", " << column;
        rows += inside && (in_x == 0 || column == 0);
      }
    }
    const auto reads = accesses_at("stored", Space::shared, Kind::load),
               writes = accesses_at("stored", Space::global, Kind::store);
    ASSERT_EQ(writes.size(), rows != 0 ? 1U : 0U) << "a box outside of the tensor writes nothing";
    if (x == 0) EXPECT_EQ(writes[0].sectors, 16 * 4 + 8) << "every second row begins in the middle of a sector";
    ASSERT_EQ(reads.size(), 1U);
    EXPECT_EQ(reads[0].bytes, 2048);
    EXPECT_EQ(reads[0].wavefronts, 16);
  }
}

TEST_F(ClusterBoxes, MistakesWithStores) {
  const auto mistake = [&](int64_t n) { run("box_store_mistake", n, matrix_.data(), map_.data(), 1, 1); };
  for (const int64_t n : {0, 9, 12}) {
    mistake(n);
    expect_clean(std::to_string(n));
  }
  mistake(1);
  expect_a_fault(FaultKind::in_flight, "bad_store", "with no fence.proxy.async in between");
  EXPECT_TRUE(device_.report().races.empty());
  mistake(2);
  expect_race("filled", "bad_store");
  mistake(3);
  expect_race("bad_store", "refilled");
  mistake(4);
  expect_race("bad_store", "refilled");
  for (const int64_t n : {5, 6}) {
    mistake(n);
    expect_a_fault(FaultKind::in_flight, "bad_store", "this store of 2048 bytes may still read its shared memory");
  }
  mistake(7);
  expect_a_fault(FaultKind::misaligned, "bad_store", "comes from shared address");
  mistake(8);
  expect_race("bad_store", "result_load");
  mistake(10);
  expect_race("bad_store", "refilled");
  mistake(11);
  expect_a_fault(FaultKind::out_of_bounds, "bad_store", "from memory that is not shared");
}

}  // namespace
}  // namespace tenfold::test
