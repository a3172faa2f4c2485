// What the microscope counts, against counts by hand: a sector is 32 bytes, a bank 4, and there are 32 banks.
#include <unistd.h>

#include <array>
#include <cmath>
#include <set>

#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

class Counts : public EngineTest {
 protected:
  /// The access of this kind at the marked line of counts.cuh; fails unless there is exactly one.
  Access at(const std::string& marker, Space space, Kind kind, const std::string& buffer = "") const {
    const int line = line_of("counts.cuh", marker);
    const Report report = device_.report();
    std::vector<Access> found;
    for (const Access& access : report.accesses) {
      const bool same = access.where.line == line && access.space == space && access.kind == kind;
      if (same && access.where.file == "tests/microscope/counts.cuh" && (buffer.empty() || access.buffer == buffer))
        found.push_back(access);
    }
    EXPECT_EQ(found.size(), 1U) << marker;
    return found.size() == 1 ? found[0] : Access{};
  }
  Access load(const std::string& marker) const { return at(marker, Space::global, Kind::load); }
  Access store(const std::string& marker) const { return at(marker, Space::global, Kind::store); }

  simt::Buffer<float> out_ = counted<float>("out", 4096), in_ = counted<float>("in", 4096);
};

TEST_F(Counts, SectorsOfStrides) {
  // stride, sectors, lines
  const std::vector<std::array<int64_t, 3>> by_hand = {{0, 1, 1},  {1, 4, 1},  {2, 8, 2},   {3, 12, 3},
                                                       {4, 16, 4}, {8, 32, 8}, {32, 32, 32}};
  for (const auto& [stride, sectors, lines] : by_hand) {
    device_.reset();
    run_kernel(&device_, "strided", {}, out_.data(), in_.data(), stride);
    const Access read = load("strided");
    EXPECT_EQ(read.sectors, sectors) << stride;
    EXPECT_EQ(read.lines, lines) << stride;
    EXPECT_EQ(read.requests, 1);
    EXPECT_EQ(read.lanes, 32);
    EXPECT_EQ(read.bytes, 4);
    EXPECT_EQ(read.buffer, "in");
    for (size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(read.example[lane], static_cast<int64_t>(lane) * 4 * stride);
    EXPECT_EQ(store("strided").sectors, 4);
    EXPECT_EQ(store("strided").buffer, "out");
    EXPECT_EQ(device_.report().lane_accesses, 64);
  }
  expect_clean();
}

TEST_F(Counts, OneElementOffIsAFifthSector) {
  for (const int64_t shift : {0, 1, 7, 8, 9}) {
    device_.reset();
    run_kernel(&device_, "shifted", {}, out_.data(), in_.data(), shift);
    EXPECT_EQ(load("shifted").sectors, shift % 8 == 0 ? 4 : 5) << shift;
  }
}

TEST_F(Counts, RequestsAreOfWarps) {
  run_kernel(&device_, "strided", {.grid = {3, 1, 1}, .block = {80, 1, 1}}, out_.data(), in_.data(), 1);
  const Access read = load("strided");  // two whole warps and half a one in each block
  EXPECT_EQ(read.requests, 9);
  EXPECT_EQ(read.lanes, 240);
  EXPECT_EQ(read.sectors, 3 * (4 + 4 + 2));
  EXPECT_EQ(read.bytes_asked(), 960);
  EXPECT_EQ(read.bytes_moved(), 960);
}

TEST_F(Counts, ABroadcastIsOneSector) {
  run_kernel(&device_, "broadcast", {}, out_.data(), in_.data(), 77);
  EXPECT_EQ(load("broadcast").sectors, 1);
  EXPECT_EQ(load("broadcast").lanes, 32);
}

TEST_F(Counts, MaskedLanesAskForNothing) {
  const std::vector<std::pair<int64_t, int64_t>> sectors_of_mask = {
      {0x1, 1}, {0xff, 1}, {0x1ff, 2}, {0x01010101, 4}, {0xaaaaaaaa, 4}};
  for (const auto& [mask, sectors] : sectors_of_mask) {
    device_.reset();
    run_kernel(&device_, "masked", {}, out_.data(), in_.data(), mask);
    const Access read = load("masked");
    EXPECT_EQ(read.sectors, sectors);
    EXPECT_EQ(read.lanes, std::popcount(static_cast<uint64_t>(mask)));
    for (size_t lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(read.example[lane], (mask >> lane & 1) != 0 ? static_cast<int64_t>(lane) * 4 : -1) << lane;
    }
  }
  device_.reset();
  run_kernel(&device_, "masked", {.block = {64, 1, 1}}, out_.data(), in_.data(), 0);
  EXPECT_TRUE(device_.report().accesses.empty());
}

TEST_F(Counts, LanesOfALoopMeetTurnByTurn) {
  run_kernel(&device_, "ragged_loop", {}, out_.data(), in_.data());
  const Access read = load("ragged");
  EXPECT_EQ(read.requests, 32);
  EXPECT_EQ(read.lanes, 32 * 33 / 2);
  int64_t sectors = 0;  // in turn i the lanes from i on take part
  for (int i = 0; i < 32; ++i) sectors += 4 - i / 8;
  EXPECT_EQ(read.sectors, sectors);
}

TEST_F(Counts, OneInstructionMayReadTwoBuffers) {
  run_kernel(&device_, "two_buffers", {.block = {64, 1, 1}}, out_.data(), in_.data());
  const Access low = at("two_buffers", Space::global, Kind::load, "in"),
               high = at("two_buffers", Space::global, Kind::load, "out");
  EXPECT_EQ(low.lanes, 16);
  EXPECT_EQ(low.sectors, 2);
  EXPECT_EQ(low.example[15], 60);
  EXPECT_EQ(low.example[16], -1);
  EXPECT_EQ(high.lanes, 48);
  EXPECT_EQ(high.sectors, 2 + 4);
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out_[i], static_cast<float>(i));
  expect_clean();
}

TEST_F(Counts, EveryWidthIsOneAccess) {
  struct Expected {
    const char *kernel, *marker;
    int bytes;
    int64_t sectors;
  };
  for (const auto& [kernel, marker, bytes, sectors] :
       {Expected{"as_float2", "float2", 8, 8}, Expected{"as_float4", "float4", 16, 16},
        Expected{"as_half", "half", 2, 2}, Expected{"as_eight_halves", "eight_halves", 16, 16},
        Expected{"as_double", "double", 8, 8}}) {
    device_.reset();
    run_kernel(&device_, kernel, {}, out_.data(), in_.data());
    for (const Access& access : {load(marker), store(marker)}) {
      EXPECT_EQ(access.bytes, bytes) << kernel;
      EXPECT_EQ(access.requests, 1) << kernel;
      EXPECT_EQ(access.sectors, sectors) << kernel;
    }
    EXPECT_EQ(device_.report().accesses.size(), 2U) << kernel;
    for (int64_t i = 0; i < 32 * bytes / 4; ++i) EXPECT_EQ(out_[i], in_[i]) << kernel;
    std::fill(out_.begin(), out_.end(), NAN);
  }
  device_.reset();
  run_kernel(&device_, "as_bfloat16", {}, out_.data(), in_.data());
  EXPECT_EQ(load("bfloat16").bytes, 2);
  EXPECT_EQ(load("bfloat16").sectors, 2);
  EXPECT_EQ(store("bfloat16").bytes, 4);
  device_.reset();
  run_kernel(&device_, "as_ldg", {}, out_.data(), in_.data());
  EXPECT_EQ(load("ldg").bytes, 16);
  EXPECT_EQ(load("ldg").sectors, 16);
  for (int64_t i = 0; i < 128; ++i) EXPECT_EQ(out_[i], in_[i ^ 3]);
  expect_clean();
}

// A structure is aligned as its widest member: twelve bytes are three words also where they begin at a multiple of 8.
TEST_F(Counts, AStructOfThreeFloatsIsThreeWords) {
  run_kernel(&device_, "as_three_floats", {}, out_.data(), in_.data());
  for (const Access& access : device_.report().accesses) {
    EXPECT_EQ(access.bytes, 4);
    EXPECT_EQ(access.requests, 3);
    EXPECT_EQ(access.sectors, 3 * 12);
  }
  EXPECT_EQ(device_.report().accesses.size(), 2U);
  for (int64_t i = 0; i < 96; ++i) EXPECT_EQ(out_[i], in_[i]);
  expect_clean();
}

TEST_F(Counts, BankConflicts) {
  struct Expected {
    int64_t stride;
    int ways;
  };
  for (const auto& [stride, ways] :
       {Expected{0, 1}, {1, 1}, {2, 2}, {3, 1}, {4, 4}, {8, 8}, {16, 16}, {31, 1}, {32, 32}, {33, 1}}) {
    device_.reset();
    run_kernel(&device_, "shared_strided", {}, out_.data(), nullptr, stride);
    const Access read = at("shared_load", Space::shared, Kind::load);
    EXPECT_EQ(read.wavefronts, ways) << stride;
    EXPECT_EQ(read.worst_ways, ways) << stride;
    EXPECT_EQ(read.ideal_wavefronts, 1) << stride;
    EXPECT_EQ(read.sectors, 0) << stride;
    EXPECT_EQ(read.buffer, "");
    const Access write = at("shared_store", Space::shared, Kind::store);
    EXPECT_EQ(write.requests, 32);
    EXPECT_EQ(write.wavefronts, 32);
    EXPECT_EQ(write.worst_ways, 1);
  }
}

TEST_F(Counts, WideSharedAccessesGoInParts) {
  run_kernel(&device_, "shared_wide", {}, out_.data());
  const Access write = at("shared_float4", Space::shared, Kind::store),
               read = at("shared_float4_load", Space::shared, Kind::load);
  for (const Access& access : {write, read}) {
    EXPECT_EQ(access.bytes, 16);
    EXPECT_EQ(access.requests, 1);
    EXPECT_EQ(access.wavefronts, 4);
    EXPECT_EQ(access.ideal_wavefronts, 4);
    EXPECT_EQ(access.worst_ways, 1);
  }
  const Access doubles = at("shared_double", Space::shared, Kind::store);
  EXPECT_EQ(doubles.bytes, 8);
  EXPECT_EQ(doubles.wavefronts, 2);
  EXPECT_EQ(doubles.ideal_wavefronts, 2);
  struct Expected {
    int64_t stride, wavefronts;
  };
  for (const auto& [stride, wavefronts] : {Expected{1, 4}, {2, 8}, {8, 32}}) {
    device_.reset();
    run_kernel(&device_, "shared_float4_column", {}, out_.data(), nullptr, stride);
    EXPECT_EQ(at("shared_float4_column", Space::shared, Kind::load).wavefronts, wavefronts) << stride;
    EXPECT_EQ(at("shared_float4_column", Space::shared, Kind::load).ideal_wavefronts, 4) << stride;
  }
}

// As where nvcc makes one load of several; and of 16 bytes in two passes, where lanes pair.
TEST_F(Counts, WiderSharedLoadsShareMore) {
  simt::Device device({.reuse = true});
  const auto out = device.buffer<float>("out", 4096);
  const auto loads = [&](const char* kernel, const char* line, int64_t stride) {
    device.reset();
    run_kernel(&device, kernel, {}, out.data(), nullptr, stride);
    const std::vector<Access> all = device.report().accesses;
    return *std::ranges::find_if(all, [&](const Access& access) {
      return access.kind == Kind::load && access.space == Space::shared &&
             access.where.line == line_of("counts.cuh", line);
    });
  };
  struct Expected {
    int64_t stride, wide, widest;
  };
  // 32 floats: side by side they are 8 times 16 bytes of four lanes each; two apart, of two lanes each.
  for (const auto& [stride, wide, widest] : {Expected{0, 2, 2}, {1, 2, 2}, {2, 2, 2}, {4, 4, 4}}) {
    const Access load = loads("shared_strided", "shared_load", stride);
    EXPECT_EQ(load.wavefronts_8, wide) << stride;
    EXPECT_EQ(load.wavefronts_16, widest) << stride;
  }
  EXPECT_EQ(loads("shared_float4_column", "shared_float4_column", 0).wavefronts_16, 2) << "all lanes share";
  EXPECT_EQ(loads("shared_float4_column", "shared_float4_column", 1).wavefronts_16, 4) << "no lane shares";
  EXPECT_EQ(loads("shared_float4_column", "shared_float4_column", 1).wavefronts_8, 0) << "narrower than the source";
}

TEST_F(Counts, HalvesOfOneWordShareIt) {
  run_kernel(&device_, "shared_half", {}, out_.data(), in_.data());
  const Access write = at("shared_half", Space::shared, Kind::store);
  EXPECT_EQ(write.bytes, 2);
  EXPECT_EQ(write.wavefronts, 1);
  expect_clean();
}

TEST_F(Counts, Atomics) {
  const auto counters = device_.buffer<int>("counters", 32);
  std::fill(counters.begin(), counters.end(), 0);
  for (const int64_t n : {0, 1}) {
    device_.reset();
    run_kernel(&device_, "count_atomics", {}, counters.data(), nullptr, n);
    const Access access = at("atomic", Space::global, Kind::atomic);
    EXPECT_EQ(access.sectors, n == 0 ? 1 : 4);
    EXPECT_EQ(access.requests, 1);
    EXPECT_EQ(access.lanes, 32);
    EXPECT_EQ(device_.report().unique_bytes_read, n == 0 ? 32 : 128);  // it reads and it writes
    EXPECT_EQ(device_.report().unique_bytes_written, n == 0 ? 32 : 128);
  }
  EXPECT_EQ(counters[0], 33);
  EXPECT_EQ(counters[31], 1);
  expect_clean();
}

TEST_F(Counts, UniqueBytesAreCountedOnce) {
  run_kernel(&device_, "unique", {.grid = {6, 1, 1}, .block = {64, 1, 1}}, out_.data(), in_.data());
  EXPECT_EQ(device_.report().unique_bytes_read, 6 * 64 * 4);  // read three times
  EXPECT_EQ(device_.report().unique_bytes_written, 3 * 32);   // two blocks to a sector
  expect_clean();
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  statm >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(Counts, BeyondTwoToThe31) {
  constexpr int64_t kCount = (int64_t{1} << 31) + 64;
  const int64_t before = resident_bytes();
  const auto huge = device_.buffer<float>("huge", kCount);
  EXPECT_LT(resident_bytes() - before, 1 << 20) << "memory that nobody has touched";
  run_kernel(&device_, "far_end", {.block = {64, 1, 1}}, huge.data(), nullptr, kCount);
  const Access write = store("far_store"), read = load("far_load");
  EXPECT_EQ(write.example[0], (kCount - 64) * 4);
  EXPECT_EQ(write.example[31], (kCount - 64 + 31) * 4);
  EXPECT_EQ(write.sectors, 8);
  EXPECT_EQ(read.example[0], (kCount - 1) * 4);
  EXPECT_EQ(huge[kCount - 1], static_cast<float>((kCount - 1) % 1000));
  EXPECT_EQ(huge[0], huge[kCount - 1]);
  EXPECT_EQ(device_.report().unique_bytes_written, 9 * 32);
  expect_clean();
  run_kernel(&device_, "far_end", {.block = {64, 1, 1}}, huge.data(), nullptr, kCount + 1);
  const Report report = device_.report();
  ASSERT_FALSE(report.faults.empty());
  EXPECT_EQ(report.faults[0].kind, simt::FaultKind::out_of_bounds);
  EXPECT_LT(resident_bytes() - before, 64 << 20);
}

}  // namespace
}  // namespace tenfold::test
