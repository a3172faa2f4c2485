#pragma once
// The microscope's inside: one launch at a time, on one core. Not installed and not for kernels to include.

#include "common/microscope/built_ins.h"

#include "common/microscope/asynchronous.h"
#include "common/microscope/fiber.h"
#include "common/microscope/reuse.h"
#include "common/microscope/shadow.h"

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tenfold::simt {

/// Region::index of shared memory. Global buffers have their place in State::all_regions.
inline constexpr int kStaticShared = -1, kDynamicShared = -2;

/// A stretch of memory that kernels may touch.
struct Region {
  std::string name;
  Space space = Space::global;
  uintptr_t low = 0, high = 0;              // the bytes
  uintptr_t outer_low = 0, outer_high = 0;  // with the guard on both sides
  int granule_shift = 2;                    // shadow words of 1, 2 or 4 bytes
  int index = 0;
  size_t block = 0;  // of the cluster, which has this shared memory
  Sparse<Shadow> shadow;
  Sparse<uint64_t> sectors_read, sectors_written;  // one bit per 32-byte sector
};

/// The lanes of one warp at one instruction, one time.
struct Slot {
  uint32_t mask = 0;
  int region = 0;
  uint64_t order = 0;  // of the slots of a warp
  uintptr_t address[32];
};

/// Sums of one instruction in one region.
struct Sums {
  int region = 0;
  int64_t requests = 0, lanes = 0, sectors = 0, lines = 0, wavefronts = 0, ideal_wavefronts = 0;
  int64_t wavefronts_8 = 0, wavefronts_16 = 0;
  int worst_ways = 0, example_lanes = 0;
  std::array<int64_t, 32> example{};
};

/// One memory instruction of a kernel, known by its return address.
struct Site {
  uint64_t key = 0;
  uintptr_t pc = 0;
  int kernel = 0;
  Kind kind = Kind::load;
  int bytes = 4;
  uint16_t index = 0;
  uint64_t turn = 0;  // the lane's turn in which `next` counts
  uint32_t next = 0;  // slot of the lane's next access
  uint32_t used = 0;  // slots in use since the last flush
  std::vector<Slot> slots;
  std::vector<Sums> sums;
};

/// A basic block of a kernel, known by the address behind the call that the compiler put at its beginning.
struct Block {
  uintptr_t pc = 0;
  int kernel = 0;
  uint64_t turn = 0;  // the lane's turn in which `next` counts
  int64_t next = 0;   // times that the lane has come here in it
  int64_t used = 0;   // most times that a lane has come here since the last flush
  int64_t issues = 0, lanes = 0;
};

/// What a warp or a block does together at one place.
struct OperationCount {
  uintptr_t pc = 0;
  const char* name = "";  // a literal
  int kernel = 0;
  int64_t count = 0;
};

/// A cp.async between its start and its wait.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  int bytes = 0, source_bytes = 0;
  uint32_t group = 0;
  uint16_t site = 0;  // of the store to shared memory
};

struct Thread {
  enum class At : uint8_t { start, running, barrier, warp, mbarrier, warpgroup, cluster, named_barrier, done };
  Fiber* fiber = nullptr;
  Index index{};
  At at = At::start;
  bool fenced = false;  // a __threadfence since its last global store
  uint16_t number = 0;  // in the cluster, whose blocks have Engine::apart numbers each
  uintptr_t pc = 0;     // where it waits
  // What a warp operation exchanges.
  WarpOp op = WarpOp::sync;
  Number type = Number::u32;
  uint32_t mask = 0;
  int argument = 0, width = 32;
  uint64_t value = 0, result = 0;
  std::vector<Copy> copies;  // in flight, oldest first
  uint32_t groups = 0;       // of copies, committed
  Asynchronous asynchronous;
};

/// Clocks of a warp in which only some lanes synchronised: each lane's own, and up to where it knows the others' work.
struct LaneClocks {
  std::array<uint32_t, 32> own;
  std::array<std::array<uint32_t, 32>, 32> known;
};

struct Warp {
  uint32_t sync = 0;  // the clock of every lane, unless there are clocks for each
  std::unique_ptr<LaneClocks> lanes;
  uint32_t now(int lane) const { return lanes == nullptr ? sync : lanes->own[static_cast<size_t>(lane)]; }
  uint32_t known(int lane, int other) const;  ///< to the lane, of the other one
  LaneClocks& each_lane();
};

/// What a block published through an atomic after a fence: everything before its barrier, and one thread's own work.
struct Release {
  uint32_t barrier = 0;
  uint16_t thread = 0;
  bool done = false;
};

struct RaceKey {
  uint16_t first, second;
  int region;
  auto operator<=>(const RaceKey&) const = default;
};

struct Device::State {
  Options options;
  std::vector<std::shared_ptr<Region>> regions;      // by address; shared memory is not among them
  std::vector<std::shared_ptr<Region>> all_regions;  // by index, kept for the report
  std::deque<Site> sites;
  std::unordered_map<uint64_t, Site*> site_of;
  std::vector<KernelCounts> kernels;
  std::unordered_map<const void*, int> kernel_of;  // index in `kernels`
  std::deque<Block> blocks;
  std::unordered_map<uint64_t, Block*> block_of;
  std::deque<OperationCount> operations;
  std::map<RaceKey, Race> races;
  std::map<std::pair<FaultKind, uintptr_t>, Fault> faults;
  Report totals;
  uint32_t blocks_started = 0;  // over all launches
  // Lowest static shared byte that a kernel touched: on a GPU it is byte 0, here it lies anywhere in the library's
  // memory.
  int64_t shared_begin = std::numeric_limits<int64_t>::max();
};

/// A warp's load or store of global memory, with its sectors in ascending order.
struct Request {
  int region = 0;
  Kind kind = Kind::load;
  std::vector<uint64_t> sectors;  // addresses / 32
};

/// Of the block that runs.
struct Reuse {
  std::vector<std::vector<Request>> waiting;  // of each warp, since the last barrier
  StackDistance lines;
  std::unordered_map<uint64_t, std::array<int64_t, 4>> gaps;  // see reuse.cpp; of each line, for its sectors
  std::unordered_set<uint64_t> read, written;                 // sectors
};

/// A block of the cluster that runs: most of it is in the engine's fields of the same names while the block has its
/// turn.
struct ClusterBlock {
  Region fixed, dynamic;          // its shared memory
  std::vector<std::byte> memory;  // the dynamic one and its guards
  std::vector<std::byte> kept;    // the static one from touched_shared_low on, while another block has its turn
  uintptr_t touched_shared_low = std::numeric_limits<uintptr_t>::max(), touched_shared_high = 0;
  Index block_index{};
  uint32_t barrier = 0;
  int barrier_predicates = 0, barrier_result = 0;
  std::vector<const std::vector<Release>*> acquired;
  Clock block_known;
  Reuse reuse;
  bool ended = false;
  std::unordered_map<uint16_t, Visit> visits;  // of other blocks' threads, by their numbers
};

/// The launch that is running. One per process: the hooks have no other way to find it.
struct Engine {
  Device::State* state = nullptr;
  bool active = false;  // a CUDA thread is running
  Region* static_shared = nullptr;
  Region* dynamic_shared = nullptr;
  Region *last = nullptr, *last_but_one = nullptr;  // that were found: most kernels go to and fro between two
  std::array<Site*, 4096> site_cache{};
  std::vector<Site*> touched;
  std::array<Block*, 4096> block_cache{};
  std::vector<Block*> touched_blocks;
  std::array<OperationCount*, 256> operation_cache{};
  int kernel = 0;  // that runs, index in State::kernels
  Reuse reuse;
  uint64_t turn = 0;
  uint64_t slots = 0;  // begun so far

  dim3 grid, block;
  Index block_index{};
  uint32_t block_number = 0, first_block = 0;
  uint32_t barrier = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Thread* current = nullptr;
  Warp* current_warp = nullptr;
  uintptr_t touched_shared_low = 0, touched_shared_high = 0;  // static shared memory that this block used
  int barrier_predicates = 0, barrier_result = 0;
  std::unordered_map<uintptr_t, std::vector<Release>> releases;
  std::vector<const std::vector<Release>*> acquired;
  bool lost = false;         // cannot go on: a fault was noted
  uint32_t first_agent = 0;  // its number: that of the block's threads
  std::vector<Agent> agents;
  std::vector<Mbarrier> mbarriers;
  std::vector<Warpgroup> warpgroups;
  Clock block_known;                 // to every thread of the block, since the last __syncthreads; alone, agents only
  std::deque<ClusterBlock> cluster;  // a block that is launched without one is alone in its own
  size_t rank = 0;                   // of the block that has its turn
  size_t threads_of_block = 0, apart = 0;
  uint32_t first_of_cluster = 0;  // its block_number
  ClusterBarrier cluster_barrier;
  std::vector<NamedBarrier> named_barriers;  // of each block by number; none before the first is used

  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  void (*enter)(const void*) = nullptr;
  const void* call = nullptr;
  std::mutex one_launch;

  static Device::State& state_of(Device& device) { return *device.state_; }
  static const Options& options_of(const Device& device) { return device.state_->options; }
};

extern Engine engine;

/// Calls `f.operator()<T>()` for the type.
template <class F>
uint64_t with_type(Number number, F&& f) {
  switch (number) {
    case Number::f32:
      return f.template operator()<float>();
    case Number::f64:
      return f.template operator()<double>();
    case Number::i32:
      return f.template operator()<int32_t>();
    case Number::u32:
      return f.template operator()<uint32_t>();
    case Number::i64:
      return f.template operator()<int64_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

// accesses.cpp
void flush_warp();
/// The region that holds the address, guards included; null for a stack or anything else of the host.
Region* region_of(uintptr_t address);
/// False when it is out of bounds, and a fault.
bool count_access(uintptr_t address, int bytes, Kind kind, uint64_t key, uintptr_t pc);
bool in_bounds(const Region& region, uintptr_t address, int bytes, uintptr_t pc);
/// A misaligned access is a fault that ends the launch.
void require_aligned(uintptr_t address, int bytes, uintptr_t pc);
Site& site_of(uint64_t key, uintptr_t pc, Kind kind, int bytes);
Sums& sums_of(Site& site, int region);
/// Of static shared memory, of which each block uses a part.
void note_touched(const Region& region, uintptr_t address, int bytes);
/// A request of its own that one instruction makes for all its bytes; what it takes is the caller's to add.
Sums& count_bulk(const Region& region, uintptr_t address, Kind kind, int bytes, uint64_t key, uintptr_t pc);
/// Adds the lane to the request that it belongs to.
Site& count_lane(const Region& region, uintptr_t address, int bytes, Kind kind, uint64_t key, uintptr_t pc);
// reuse.cpp
void note_request(const Region& region, const uint64_t* sectors, int count, Kind kind);
/// At a barrier, and at the block's end: the warps' requests so far, one of each in turn.
void end_of_phase();
void end_of_block();
// executions.cpp
/// A lane enters a basic block.
void count_block(uintptr_t pc);
void flush_blocks();
/// `name` is a literal.
void count_operation(uintptr_t pc, const char* name);
/// Index in State::kernels of the one that begins to run.
int begin_kernel(const void* function, dim3 block, size_t shared_bytes);
/// State::kernels with what the sites, operations and blocks add up to.
std::vector<KernelCounts> kernel_counts(const Device::State& state);
// device.cpp
/// Accesses of the sites of one kernel, or of all for -1, by line.
std::vector<Access> merged_accesses(const Device::State& state, int kernel);
// races.cpp
void check_race(Region& region, uintptr_t address, int bytes, Kind kind, uint16_t site);
/// A race where nothing orders `before` and this access of the running thread.
void expect_after(const Region& region, uintptr_t address, const Stamp& before, Kind kind, uint16_t site);
/// Of an access that the running thread makes now.
Stamp stamp_of(uint16_t site);
void publish_and_learn(uintptr_t address);
/// The destination of an asynchronous copy: whoever touches it before it has landed is in a race, its own thread as
/// well.
void copy_begins(Region& region, const Copy& copy);
/// From here on it is a store of its thread.
void copy_lands(Region& region, const Copy& copy);
/// Of the running thread: adds what it knows and did to `into`; what it does next is not among it.
void publish(Clock& into);
/// At a __syncthreads: what any thread knows of agents and of other blocks, all know.
void share_known();
/// The running thread starts an agent's store, which is complete when the agent's clock has passed `clock`.
void agent_stores(Region& region, uintptr_t address, int64_t bytes, size_t agent, uint32_t clock, uint16_t site);
/// What an agent stores comes later than was said.
void agent_is_late(Region& region, uintptr_t address, int64_t bytes, uint32_t clock);
/// The same for a load of 16 bytes; the thread is one of those that start it together.
void agent_loads(Region& region, uintptr_t address, size_t agent, uint32_t clock, uint16_t site);
/// A __syncwarp of the lanes in `group`: each now knows what any of them did or knew. `live`: the lanes that have not
/// left.
void synchronise_lanes(Warp& warp, uint32_t group, uint32_t live);
// warp.cpp
/// Completes every warp operation whose lanes have all come; `lanes` are the warp's threads, null where the block has
/// none. True when a lane can go on.
bool complete_warp_operations(const std::array<Thread*, 32>& lanes, Warp& warp);
/// "shuffle", "vote", "mma": shuffles of all kinds are one.
const char* name_of(WarpOp op);
/// "0x0000ffff", with zeros in front as a mask needs them; an address has 16 digits.
std::string hex(uint64_t value, int digits = 8);
// tensor_cores.cpp
/// Completes an ldmatrix or mma.sync, for which all 32 lanes must have come; `group`: those that did.
void complete_matrix_operation(const std::array<Thread*, 32>& lanes, uint32_t group);
// mbarriers.cpp
/// A new agent's number, which started by the running thread.
size_t new_agent();
/// The barrier at this address in a block of the cluster; null, and a fault, where none was initialised.
Mbarrier* mbarrier_of(uintptr_t address, size_t block, uintptr_t pc);
/// mbarrier.arrive, which announces `bytes` first. Without `release` it makes known what agents did, and nothing else.
void arrive(Mbarrier& barrier, uint32_t bytes, bool release, uintptr_t pc);
/// Begins the next phase if nothing of this one is missing.
void complete_phase(Mbarrier& barrier);
/// Lets the lanes go on whose mbarriers or products have come so far. True when there are any.
bool wake_lanes(const std::array<Thread*, 32>& lanes);
/// What a thread at an mbarrier or at wgmma.wait_group waits for, as a sentence.
std::string missing(const Thread& thread);
/// Faults for what is still under way when the block that has its turn ends.
void expect_nothing_in_flight();
// named_barriers.cpp
/// Whether the phase that the thread waits for at a bar.sync is over.
bool pass_named_barrier(Thread& thread);
/// What it waits for there: "named barrier 1, ..."
std::string missing_at_named_barrier(const Thread& thread);
/// Faults for those whose last phase lacks threads when the block ends.
void expect_no_arrivals_left();
// tensor_maps.cpp
/// An address in a swizzle, of which `bits` bits from bit 4 on change with those from bit 7 on.
constexpr uintptr_t swizzled(uintptr_t window, uint32_t bits) {
  return window ^ (window >> 7 & ((uintptr_t{1} << bits) - 1)) << 4;
}
/// Until the phase is complete or none is left.
void land_copies(Mbarrier& barrier);
// warpgroup.cpp
/// Whether the thread's wgmma.wait_group is over; computes what it waits for.
bool finish_products(Thread& thread);
/// A thread touches its own stack, where its accumulators lie.
void touch_registers(uintptr_t address, int bytes, Kind kind, uintptr_t pc);
// built_ins.cpp
/// Gives the turn back until the scheduler says that what the thread waits for has come.
void wait(Thread::At at, void* pc);
// scheduler.cpp
void note_fault(FaultKind kind, uintptr_t pc, const std::string& text);
/// Leaves the CUDA thread that calls it where it stands, and with it the launch.
[[noreturn]] void end_launch();
// wild_pointers.cpp
/// While it lives, a signal for a bad address that a kernel followed becomes a fault, and ends the launch.
struct CatchWildPointers {
  CatchWildPointers();
  ~CatchWildPointers();
  CatchWildPointers(const CatchWildPointers&) = delete;
  CatchWildPointers& operator=(const CatchWildPointers&) = delete;
};
// source_lines.cpp
/// The line that the call returning to `pc` stands on.
Where where_is(uintptr_t pc);
/// The lines of the calls that the compiler replaced by that line, from the inside out.
std::string inlined_into(uintptr_t pc);
/// The mangled name of the function at `pc`; empty where it is not known.
std::string symbol_at(uintptr_t pc);

}  // namespace tenfold::simt
