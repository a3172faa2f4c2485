#pragma once
// What runs beside a block's threads on Hopper, and the barriers that tell of it: part of the microscope's inside.
// Source: NVIDIA, "PTX ISA", release 9.0: "Parallel Synchronization and Communication Instructions: mbarrier",
// "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix Instructions".

#include "common/microscope/shadow.h"

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

namespace tenfold::simt {

/// How much of the block's work somebody knows to be done: of thread or agent i, all that it did before its clock came
/// to [i]. What lies behind the end is 0.
using Clock = std::vector<uint32_t>;
void join(Clock& into, const Clock& from);
void raise(Clock& clock, size_t of, uint32_t to);
inline uint32_t at(const Clock& clock, size_t of) { return of < clock.size() ? clock[of] : 0; }

/// Somebody who is no thread and touches shared memory: the copies that report to one mbarrier, whose clock counts its
/// phases, or the products of one warpgroup, whose clock counts their groups. Agent i has the number of the block's
/// threads plus i.
struct Agent {
  uint16_t thread = 0;  ///< that started its latest work
  uint32_t done = 0;    ///< its clock: everything before is complete
};

/// A box that TMA brings, between its start and the completion of its barrier's phase.
struct BoxCopy {
  uintptr_t from = 0;                    ///< element (x, y), which may lie outside of the tensor
  uintptr_t to = 0, window = 0;          ///< in shared memory: here, and as an address of the shared window
  uint64_t row_bytes = 0;                ///< of the tensor
  int64_t rows = 0, columns_bytes = 0;   ///< of the box
  int64_t first_row = 0, end_row = 0;    ///< of the box, that lie inside the tensor
  int64_t first_byte = 0, end_byte = 0;  ///< of a row, likewise
  uint32_t swizzle = 0;                  ///< bits of an address that change
  uint32_t phase = 0;                    ///< of its barrier
  uint16_t site = 0;                     ///< of the store to shared memory
  uintptr_t pc = 0;
  int64_t bytes() const { return rows * columns_bytes; }
};

/// A barrier in shared memory. It completes a phase when all `count` arrivals have come and all bytes that were
/// announced have landed.
struct Mbarrier {
  uintptr_t address = 0;
  size_t block = 0;            ///< of the cluster
  int count = 0, pending = 0;  ///< arrivals of a phase, and those that are missing in this one
  int64_t bytes = 0;           ///< announced and not yet landed
  uint32_t phase = 0;          ///< phases completed
  size_t agent = 0;            ///< number of its copies'
  Stamp initialised;
  bool fenced = false;         ///< TMA may know of it
  Clock arrived, released;     ///< what the arrivals of this phase, and of those before it, make known
  std::deque<BoxCopy> copies;  ///< under way, oldest first
};

/// One wgmma.mma_async of the 128 threads of a warpgroup.
struct Product {
  int type = 0, columns = 0;  ///< MatrixType
  uint64_t a = 0, b = 0;      ///< descriptors
  bool add = false, a_across = false, b_across = false;
  bool a_in_registers = false;  ///< then `a` is 0, and a_registers are set
  uint32_t group = 0;
  uintptr_t pc = 0;
  int came = 0;                                    ///< threads
  std::array<float*, 128> d{};                     ///< of each thread, columns / 2 sums
  std::array<const uint32_t*, 128> a_registers{};  ///< of each thread, four pairs of elements
  std::vector<uintptr_t> a_packets, b_packets;     ///< of 16 bytes; empty where a descriptor is bad
  bool readable() const { return !b_packets.empty() && (a_in_registers || !a_packets.empty()); }
  bool same_as(const Product& o) const {
    return type == o.type && columns == o.columns && a == o.a && b == o.b && add == o.add && a_across == o.a_across &&
           b_across == o.b_across && a_in_registers == o.a_in_registers && group == o.group;
  }
};

struct Warpgroup {
  std::array<size_t, 4> agents{};  ///< number of each warp's, as each commits and waits for groups of its own; or 0
  uint64_t finished = 0;           ///< products that are no longer in `products`
  std::deque<Product> products;    ///< oldest first
};

/// A box that TMA stores, between its start and the wait for its group.
struct BoxStore {
  BoxCopy box;  ///< from shared memory, `to`, to the tensor, `from`
  uint32_t group = 0;
  bool read = false;  ///< shared memory is no longer needed
};

/// Of a cluster: all its threads that have not ended arrive, and each waits after its own arrival.
struct ClusterBarrier {
  uint32_t phase = 0;
  int missing = 0;          ///< threads that have neither ended nor arrived in this phase
  int live = 0;             ///< threads that have not ended
  Clock arrived, released;  ///< as an Mbarrier's
};

/// A thread's latest access to the shared memory of another block of its cluster.
struct Visit {
  uint32_t clock = 0;
  uintptr_t pc = 0;
};

/// Registers that a thread gave to wgmma: sums, or an operand, which wgmma only reads.
struct Accumulator {
  enum class Is : uint8_t { in_flight, landed, settled };
  uintptr_t low = 0, high = 0;
  uint32_t group = 0;  ///< of the latest product
  Is is = Is::in_flight;
  bool operand = false;
};

/// A barrier of bar.sync and bar.arrive, which is known by a number. It completes a phase when so many threads have
/// come as each of them says.
struct NamedBarrier {
  int threads = 0, came = 0;  ///< of this phase: wanted, and here
  uint32_t phase = 0;         ///< phases completed
  uintptr_t pc = 0;           ///< of the latest that came
  Clock arrived, released;    ///< what those of this phase, and of the phases before it, make known
};

/// What a thread has to do with all this.
struct Asynchronous {
  Clock known;
  Clock fenced_known;               ///< at its last fence.proxy.async, what it did itself included
  uint32_t fenced_barrier = 0;      ///< __syncthreads that the block had passed then
  size_t barrier = 0;               ///< index in Engine::mbarriers, of the one that it waits for
  uint32_t parity = 0;              ///< of the phase that it waits for
  size_t named_barrier = 0;         ///< number of the one that it waits at
  uint32_t named_phase = 0;         ///< that it waits for
  uint64_t products = 0;            ///< started
  uint32_t groups = 0, wanted = 0;  ///< committed; waited for
  bool fenced = false;              ///< wgmma.fence since its last access to an accumulator
  std::vector<Accumulator> accumulators;
  std::deque<BoxStore> stores;    ///< by TMA, oldest first
  uint32_t store_groups = 0;      ///< committed
  size_t reader = 0, writer = 0;  ///< agents of its stores: in shared and in global memory; 0 before the first
  bool cluster_arrived = false;   ///< at the cluster's barrier, and has not yet waited
  uint32_t cluster_phase = 0;     ///< of its latest arrival
  uint32_t begun = 0;             ///< blocks of the cluster that it knows to have begun, a bit each
};

}  // namespace tenfold::simt
