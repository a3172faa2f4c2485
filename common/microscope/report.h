#pragma once
// What the microscope saw: plain values, with no engine behind them.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenfold::simt {

/// A place in a source file. `file` is relative to the checkout where it can be.
struct Where {
  std::string file;
  int line = 0;
  bool operator==(const Where&) const = default;
  auto operator<=>(const Where&) const = default;
};

enum class Space { global, shared };
enum class Kind { load, store, atomic };

/// One memory instruction of the kernel: what one source line does in one space with one width. A request is that
/// instruction issued once for one warp.
struct Access {
  Where where;
  Space space = Space::global;
  Kind kind = Kind::load;
  int bytes = 4;       ///< per lane; of a box or an operand that one instruction moves for all, in one lane
  std::string buffer;  ///< the global buffer's name; empty for shared memory
  int64_t requests = 0;
  int64_t lanes = 0;             ///< active lanes over all requests; 32 * requests when no lane is masked
  int64_t sectors = 0;           ///< global: 32-byte sectors over all requests, the unit that L2 and DRAM move
  int64_t lines = 0;             ///< global: 128-byte lines over all requests, the unit that L1 looks up
  int64_t wavefronts = 0;        ///< shared: passes over the 32 banks over all requests
  int64_t ideal_wavefronts = 0;  ///< shared: what the same requests need without a bank conflict
  /// Shared loads, where Options::reuse: the passes if a lane asked for 8 and for 16 aligned bytes around what it asks
  /// for, as where nvcc has made one load of several; 0 for narrower ones than the source has.
  int64_t wavefronts_8 = 0, wavefronts_16 = 0;
  int worst_ways = 0;  ///< shared: distinct words in one bank in the worst request (1: no conflict)
  /// The example for the picture: byte offsets of the 32 lanes in the buffer (or in shared memory) in the first request
  /// with the most lanes; -1 for a lane that took no part.
  std::array<int64_t, 32> example{};

  double sectors_per_request() const {
    return requests ? static_cast<double>(sectors) / static_cast<double>(requests) : 0;
  }
  double wavefronts_per_request() const {
    return requests ? static_cast<double>(wavefronts) / static_cast<double>(requests) : 0;
  }
  int64_t bytes_asked() const { return lanes * bytes; }
  int64_t bytes_moved() const { return sectors * 32; }
};

/// How often one source line of a kernel was entered: as an instruction would be issued, once for all lanes of a warp
/// that come together.
struct LineCount {
  Where where;
  int64_t issues = 0;
  int64_t lanes = 0;  ///< over all issues; 32 * issues when no lane is masked
};

/// What a warp or a block did together on one line: "shuffle", "vote", "barrier", "mma", ...
struct Operation {
  Where where;
  std::string name;
  int64_t count = 0;
};

constexpr int64_t kCacheLine = 128;  ///< bytes, of four sectors
constexpr size_t kReuseBuckets = 44;
/// What bucket i of KernelCounts::reads_again holds lies below so many bytes: 1 KiB, 1.5 KiB, 2 KiB, 3 KiB, ...
int64_t reuse_bytes(size_t bucket);

/// What blocks touch of one buffer, in sectors of 32 bytes. Of each block by itself: two blocks that read the same
/// count twice.
struct Touches {
  int64_t bytes = 0;        ///< of the buffer
  int64_t first_reads = 0;  ///< sectors that a block had not read before
  int64_t stores = 0;       ///< sectors of all stores and atomics
  int64_t written = 0;      ///< sectors that a block had not written before
};

/// All launches of one kernel.
struct KernelCounts {
  std::string symbol;  ///< mangled; empty where it is not known
  int64_t launches = 0, blocks = 0, warps = 0;
  int64_t threads_of_block = 0, shared_bytes = 0;  ///< of the last launch; dynamic
  std::vector<Access> accesses;                    ///< as Report::accesses
  std::vector<Operation> operations;               ///< by line and name
  std::vector<LineCount> lines;                    ///< by line; empty unless Options::lines
  int64_t grid_blocks = 0;                         ///< of all launches, with those that Options::sample left out
  // Empty unless Options::reuse:
  std::map<std::string, Touches> touches;            ///< by buffer
  std::array<int64_t, kReuseBuckets> reads_again{};  ///< sectors read again, by the bytes touched in between
};

struct ThreadId {
  std::array<uint32_t, 3> block{}, thread{};
};

/// Two accesses to the same word, at least one a write, that nothing orders.
struct Race {
  Space space = Space::shared;
  Kind first_kind = Kind::store, second_kind = Kind::load;
  Where first, second;
  std::string buffer;
  int64_t offset = 0;  ///< bytes from the buffer's start, where it was seen first
  ThreadId first_thread, second_thread;
  int64_t count = 0;       ///< how often this pair of lines was seen
  bool in_flight = false;  ///< the first is an asynchronous copy that had not landed, or a product that still reads:
                           ///< nobody may touch the word, its own thread neither
};

enum class FaultKind {
  out_of_bounds,
  misaligned,
  divergent_barrier,
  warp_mismatch,
  deadlock,
  in_flight,
  mbarrier,
  bad_operand,
  cluster,     ///< a block that the cluster has not, or that may not have begun; its barrier in the wrong order
  block_ended  ///< shared memory of a block that ends, or may end, before its peer has touched it
};

/// Something that has no meaning on a GPU. `text` is one sentence.
struct Fault {
  FaultKind kind = FaultKind::out_of_bounds;
  Where where;
  std::string text;
  int64_t count = 0;
};

/// Everything launched on a device since the last reset.
struct Report {
  std::vector<Access> accesses;  ///< by file, line, space and kind
  std::vector<Race> races;
  std::vector<Fault> faults;
  std::vector<KernelCounts> kernels;  ///< in the order of their first launch
  int64_t launches = 0, blocks = 0, threads = 0;
  int64_t barriers = 0;           ///< __syncthreads of a block, not of a thread
  int64_t warp_operations = 0;    ///< shuffles, votes, __syncwarp: of a warp
  int64_t matrix_multiplies = 0;  ///< mma.sync of a warp, wgmma of a warpgroup
  int64_t tensor_flops = 0;       ///< what these multiplied and added
  int64_t lane_accesses = 0;      ///< counted accesses of single threads
  int64_t unique_bytes_read = 0,
          unique_bytes_written = 0;  ///< sectors touched at least once, times 32: what DRAM must move
  int64_t largest_shared_bytes = 0;  ///< dynamic shared memory of the largest launch
  double seconds = 0;                ///< of the microscope, never of a GPU

  int64_t sectors() const {
    int64_t sum = 0;
    for (const Access& access : accesses) sum += access.sectors;
    return sum;
  }
  /// By the lanes, of global memory.
  int64_t bytes_asked() const {
    int64_t sum = 0;
    for (const Access& access : accesses) sum += access.space == Space::global ? access.bytes_asked() : 0;
    return sum;
  }
  int64_t wavefronts() const {
    int64_t sum = 0;
    for (const Access& access : accesses) sum += access.wavefronts;
    return sum;
  }
  bool clean() const { return races.empty() && faults.empty(); }
};

/// The word that tables and JSON use.
const char* name_of(Space space);
const char* name_of(Kind kind);
const char* name_of(FaultKind kind);
/// "kernels/transpose/transpose.cuh:31"
std::string text_of(const Where& where);
/// "transpose.cuh:31", where the folder is clear
std::string short_text_of(const Where& where);

}  // namespace tenfold::simt
