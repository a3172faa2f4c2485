// Mistakes planted in kernels: the microscope must name each at its line, and must not name what is right.
#include <bit>

#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::FaultKind;
using simt::Kind;
using simt::Report;
using simt::Space;

class Faults : public EngineTest {
 protected:
  /// One race and nothing else, between the marked lines of faults.cuh in whichever order the threads came there.
  void expect_race(const std::string& a, const std::string& b, Space space) const {
    const Report report = device_.report();
    const int first = line_of("faults.cuh", a), second = line_of("faults.cuh", b);
    EXPECT_TRUE(report.faults.empty()) << report.faults[0].text;
    ASSERT_FALSE(report.races.empty()) << "no race between lines " << first << " and " << second;
    for (const simt::Race& race : report.races) {
      EXPECT_EQ(std::minmax(race.first.line, race.second.line), std::minmax(first, second))
          << race.first.line << " " << race.second.line;
      EXPECT_EQ(race.first.file, "tests/microscope/faults.cuh");
      EXPECT_EQ(race.space, space);
      EXPECT_GE(race.count, 1);
      EXPECT_NE(
          race.first_thread.thread == race.second_thread.thread && race.first_thread.block == race.second_thread.block,
          true);
    }
  }
  /// Faults of one kind at the marked line, and nothing else.
  void expect_fault(FaultKind kind, const std::string& marker, const std::string& part = "") const {
    const Report report = device_.report();
    EXPECT_TRUE(report.races.empty());
    ASSERT_EQ(report.faults.size(), 1U);
    const simt::Fault& fault = report.faults[0];
    EXPECT_EQ(name_of(fault.kind), std::string(name_of(kind))) << fault.text;
    EXPECT_EQ(text_of(fault.where), "tests/microscope/faults.cuh:" + std::to_string(line_of("faults.cuh", marker)))
        << fault.text;
    EXPECT_NE(fault.text.find(part), std::string::npos) << fault.text;
  }
  /// After whatever happened the device must take the next launch, and count it as if nothing had been.
  void expect_usable() {
    device_.reset();
    const auto in = counted<float>("in after", 128), out = device_.buffer<float>("out after", 128);
    run_kernel(&device_, "with_barrier", {.block = {128, 1, 1}}, out.data(), in.data(), 128);
    for (int64_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], static_cast<float>(127 - i));
    expect_clean("the launch after");
    EXPECT_EQ(device_.report().lane_accesses, 4 * 128);
    EXPECT_EQ(device_.report().sectors(), 2 * 16);
    EXPECT_EQ(device_.report().wavefronts(), 2 * 4);
  }

  simt::Buffer<float> out_ = counted<float>("out", 1024), in_ = counted<float>("in", 1024);
  simt::Buffer<int> results_ = device_.buffer<int>("results", 64);
};

TEST_F(Faults, RacesInABlock) {
  struct Planted {
    const char *kernel, *first, *second;
    uint32_t threads;
    int64_t n;
  };
  for (const auto& [kernel, first, second, threads, n] : {
           Planted{"missing_barrier", "unordered_store", "unordered_load", 128, 128},
           Planted{"missing_barrier_byte", "wide_store", "narrow_load", 128, 128},
           Planted{"missing_second_barrier", "overwriting_store", "overwritten_load", 128, 3},
           Planted{"missing_syncwarp", "lane_store", "lane_load", 32, 0},
           Planted{"shuffle_instead_of_syncwarp", "shuffled_store", "shuffled_load", 32, 0},
           Planted{"syncwarp_between_warps", "warps_store", "warps_load", 128, 128},
           Planted{"half_warps_crossed", "crossed_store", "crossed_load", 32, 0},
           Planted{"atomic_without_barrier", "zero_store", "early_atomic", 64, 0},
       }) {
    SCOPED_TRACE(kernel);
    device_.reset();
    run_kernel(&device_, kernel, {.block = {threads, 1, 1}}, out_.data(), in_.data(), n);
    expect_race(first, second, Space::shared);
  }
}

TEST_F(Faults, ARaceSaysWhoAndWhere) {
  run_kernel(&device_, "missing_syncwarp", {.grid = {2, 1, 1}}, out_.data(), in_.data());
  const Report report = device_.report();
  ASSERT_FALSE(report.races.empty());
  const simt::Race& race =
      report.races[0];  // lane 0 runs first and reads lane 31's place, which nobody has written yet
  EXPECT_EQ(race.first_kind == Kind::store || race.second_kind == Kind::store, true);
  EXPECT_EQ(race.first_thread.block, (std::array<uint32_t, 3>{0, 0, 0}));
  EXPECT_EQ(race.first_thread.thread[0] + race.second_thread.thread[0], 31U);
  EXPECT_EQ(race.offset % 4, 0);
  int64_t count = 0;
  for (const simt::Race& each : report.races) count += each.space == Space::shared ? each.count : 0;
  EXPECT_EQ(count, 2 * 32) << "once for each word of each block's tile";
}

TEST_F(Faults, RacesBetweenBlocks) {
  const Launch launch{.grid = {4, 1, 1}};
  run_kernel(&device_, "blocks_write_same", launch, results_.data());
  expect_race("same_word", "same_word", Space::global);
  EXPECT_EQ(device_.report().races[0].buffer, "results");
  EXPECT_EQ(device_.report().races[0].offset, 0);

  device_.reset();
  run_kernel(&device_, "last_block_overwrites", launch, results_.data());
  expect_race("all_read", "one_writes", Space::global);

  const auto in = counted<int>("numbers", 128);
  for (const bool fence : {false, true}) {
    device_.reset();
    std::fill(results_.begin(), results_.end(), 0);
    run_kernel(&device_, fence ? "last_block_fenced" : "last_block_unfenced", launch, results_.data(), in.data());
    if (fence) {
      expect_clean("with a fence");
    } else {
      expect_race("partial_sum", "partial_sum_read", Space::global);
    }
    EXPECT_EQ(results_[5], 127 * 128 / 2);
  }
}

TEST_F(Faults, WhatIsInOrderIsNotReported) {
  struct Right {
    const char* kernel;
    uint32_t blocks, threads;
    int64_t n;
  };
  for (const auto& [kernel, blocks, threads, n] :
       {Right{"with_barrier", 1, 128, 128}, Right{"double_buffer", 1, 128, 7}, Right{"warp_synchronous", 1, 128, 0},
        Right{"half_warps", 1, 32, 0}, Right{"syncwarp_chain", 1, 32, 0}, Right{"barrier_after_branch", 1, 64, 3}}) {
    device_.reset();
    run_kernel(&device_, kernel, {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, out_.data(), in_.data(), n);
    expect_clean(kernel);
  }
  device_.reset();
  const auto in = counted<int>("numbers", 96);
  std::fill(results_.begin(), results_.end(), 0);
  run_kernel(&device_, "atomics_together", {.grid = {5, 1, 1}, .block = {96, 1, 1}}, results_.data(), in.data(), 3);
  EXPECT_EQ(results_[3], 5 * 95 * 96 / 2);
  for (int launch = 0; launch < 3; ++launch) run_kernel(&device_, "add_one", {.grid = {2, 1, 1}}, results_.data());
  for (int launch = 0; launch < 3; ++launch)
    run_kernel(&device_, "blocks_write_same", {}, results_.data());  // one block each
  EXPECT_EQ(results_[1], 3);
  expect_clean("atomics and launches");
}

TEST_F(Faults, Addresses) {
  const auto small = counted<float>("small", 32);
  run_kernel(&device_, "off_by_one", {}, out_.data(), small.data());
  expect_fault(FaultKind::out_of_bounds, "off_by_one", "byte 128 of buffer small, which has 128");
  expect_usable();
  device_.reset();
  run_kernel(&device_, "before_the_start", {}, small.data(), nullptr, 1);
  expect_fault(FaultKind::out_of_bounds, "before_the_start", "byte -4 of buffer small");
  device_.reset();
  run_kernel(&device_, "dynamic_off_by_one", {.block = {64, 1, 1}, .shared_bytes = 256}, out_.data());
  const Report report = device_.report();  // thread i + 1's word is written by thread i: that is right behind a barrier
  expect_fault(FaultKind::out_of_bounds, "dynamic_off_by_one", "byte 256 of shared memory, which has 256");
  EXPECT_EQ(report.faults[0].count, 1);
  expect_usable();
}

// A GPU stops the kernel here, and so does the microscope: the CPU's own wide instructions would not survive it.
TEST_F(Faults, MisalignedVectors) {
  for (const int64_t n : {1, 2, 3}) {
    device_.reset();
    run_kernel(&device_, "misaligned", {.block = {64, 1, 1}}, out_.data(), in_.data(), n);
    expect_fault(FaultKind::misaligned, "misaligned", "16-byte access");
    EXPECT_EQ(device_.report().faults[0].count, 1);
    expect_usable();
  }
  run_kernel(&device_, "misaligned_copy", {.grid = {2, 1, 1}, .block = {64, 1, 1}}, out_.data() + 1, in_.data());
  expect_fault(FaultKind::misaligned, "misaligned_copy", "16-byte access");
  EXPECT_EQ(device_.report().faults[0].count, 1);
  EXPECT_EQ(out_[1], 1) << "nothing was stored";
  expect_usable();
  run_kernel(&device_, "misaligned_store", {}, out_.data(), nullptr, 1);
  expect_fault(FaultKind::misaligned, "misaligned_store", "8-byte access");
  device_.reset();
  run_kernel(&device_, "misaligned", {}, out_.data(), in_.data(), 4);
  expect_clean("16 bytes on is aligned");
}

TEST_F(Faults, PointersToNowhere) {
  for (int round = 0; round < 3; ++round) {  // more than one signal in the life of a program
    device_.reset();
    run_kernel(&device_, "null_pointer", {}, out_.data(), nullptr);
    expect_fault(FaultKind::out_of_bounds, "null_pointer",
                 "touches address 0x0000000000000000, where there is no buffer");
    expect_usable();
  }
  device_.reset();
  run_kernel(&device_, "null_pointer", {}, out_.data(), std::bit_cast<const float*>(uintptr_t{0x123456789ab0}));
  expect_fault(FaultKind::out_of_bounds, "null_pointer",
               "touches address 0x0000123456789ab0, where there is no buffer");
  device_.reset();
  run_kernel(&device_, "wild_pointer", {}, out_.data(), in_.data(), int64_t{1} << 44);
  expect_fault(FaultKind::out_of_bounds, "wild_pointer", "where there is no buffer");
  expect_usable();
}

TEST_F(Faults, LanesOutsideTheMask) {
  run_kernel(&device_, "shuffle_from_outside", {}, results_.data());
  expect_fault(FaultKind::warp_mismatch, "from_outside",
               "lane 0 reads from lane 16, which takes no part (mask 0x0000ffff)");
  EXPECT_EQ(device_.report().faults[0].count, 16);
  EXPECT_EQ(results_[0], -1) << "what it reads must not look like an answer";
  expect_usable();
  device_.reset();
  run_kernel(&device_, "mask_without_caller", {}, results_.data());
  expect_fault(FaultKind::warp_mismatch, "without_caller", "lane 31 is not in its own mask 0x7fffffff");
  expect_usable();
}

TEST_F(Faults, Deadlocks) {
  run_kernel(&device_, "lanes_that_never_come", {.grid = {3, 2, 2}}, results_.data());
  expect_fault(FaultKind::deadlock, "never_come", "waits for lanes of mask 0xffffffff");
  expect_usable();
  device_.reset();
  run_kernel(&device_, "lanes_wait_for_each_other", {}, results_.data());
  const Report report = device_.report();
  ASSERT_EQ(report.faults.size(), 2U);
  std::vector<int> lines;
  for (const simt::Fault& fault : report.faults) {
    EXPECT_EQ(fault.kind, FaultKind::deadlock);
    lines.push_back(fault.where.line);
  }
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (std::vector<int>{line_of("faults.cuh", "wait_lower"), line_of("faults.cuh", "wait_upper")}));
  expect_usable();
}

TEST_F(Faults, BarriersThatNotAllReach) {
  run_kernel(&device_, "barrier_in_branch", {}, results_.data());
  expect_fault(FaultKind::divergent_barrier, "barrier_in_branch", "16 of 32 threads never reach this __syncthreads");
  expect_usable();
  device_.reset();
  run_kernel(&device_, "two_barriers", {}, results_.data());
  expect_fault(FaultKind::divergent_barrier, "barrier_upper",
               "wait at another __syncthreads, tests/microscope/faults.cuh:" +
                   std::to_string(line_of("faults.cuh", "barrier_lower")));
  expect_usable();
}

TEST_F(Faults, WithoutRacesAndCountsAddressesAreStillChecked) {
  simt::Device quick({.count = false, .races = false});
  const auto out = quick.buffer<float>("out", 128), in = quick.buffer<float>("in", 32);
  run_kernel(&quick, "missing_barrier", {.block = {32, 1, 1}}, out.data(), in.data(), 32);
  EXPECT_TRUE(quick.report().clean());
  EXPECT_TRUE(quick.report().accesses.empty());
  run_kernel(&quick, "off_by_one", {}, out.data(), in.data());
  ASSERT_EQ(quick.report().faults.size(), 1U);
  EXPECT_EQ(quick.report().faults[0].where.line, line_of("faults.cuh", "off_by_one"));
}

}  // namespace
}  // namespace tenfold::test
