// wgmma: products that the four warps of a warpgroup start together, with both operands in shared memory, or the left
// one in registers. On a GPU they read their operands and write their sums at any time between their start and
// wgmma.wait_group. Here they do both as late as they may, at the wait; every access in between is a race or a fault.
// A group is one warp's: who has waited knows that its own warp's part of a product has read both operands, whichever
// rows these are, and nothing of the other three.
// Source: NVIDIA, "PTX ISA", release 9.0, "Asynchronous Warpgroup Level Matrix Instructions": "Register Fragments and
// Shared Memory Matrix Layouts", "Matrix Descriptor Format", "wgmma.fence", "wgmma.wait_group". Which address bits a
// swizzle changes, and what the two strides mean without one: NVIDIA CUTLASS, cute/atom/mma_traits_sm90_gmma.hpp.
#include <cuda_fp8.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/microscope/engine.h"
#include "common/microscope/hopper.h"

namespace tenfold::simt {
namespace {

/// Operands are 32 bytes deep. Where they lie is said in elements of 16 bits, 16 of them: two of 8 bits, which are
/// neighbours along the depth, lie as one of these.
constexpr int kRows = 64, kDepth = 16, kThreads = 128;

bool has_8_bits(int type) { return type == static_cast<int>(MatrixType::e4m3); }
/// Elements along the depth of a product.
int depth_of(int type) { return has_8_bits(type) ? 2 * kDepth : kDepth; }

/// The fields of a matrix descriptor, in bytes.
struct Descriptor {
  uint32_t address, leading, stride, base_offset;
  uint32_t swizzle;  ///< address bits that change
};
Descriptor fields_of(uint64_t bits) {
  constexpr std::array<uint32_t, 4> kBits = {0, 3, 2, 1};  // none, 128 bytes, 64, 32
  const auto field = [&](int low, int width) {
    return static_cast<uint32_t>(bits >> low & ((uint64_t{1} << width) - 1));
  };
  return {field(0, 14) * 16, field(16, 14) * 16, field(32, 14) * 16, field(49, 3), kBits[field(62, 2)]};
}

/// Where the packet of 8 elements lies that holds element i of the long way (rows of A, columns of B) at depth k.
uintptr_t packet_of(const Descriptor& d, bool across, int i, int k) {
  const auto row = static_cast<uint32_t>(across ? k : i), column = static_cast<uint32_t>(across ? i : k);
  const uint32_t width = 16U << d.swizzle, in_row = width / 2;  // bytes and elements of a swizzled row
  uint32_t units = row / 8 * d.stride;
  if (across)
    units = d.swizzle == 0 ? column / 8 * d.stride + row / 8 * d.leading : units + column / in_row * d.leading;
  if (!across && d.swizzle == 0) units += column / 8 * d.leading;
  const uint32_t within = row % 8 * width + column % in_row / 8 * 16;
  return swizzled(d.address + units + within, d.swizzle);
}

/// All packets of an operand of `extent` x 16 elements, 8 of them that make a core matrix side by side; none, and a
/// fault, where the descriptor is bad.
std::vector<uintptr_t> packets_of_operand(uint64_t bits, int extent, bool across, const char* name, uintptr_t pc) {
  const Descriptor d = fields_of(bits);
  const auto bad = [&](const std::string& why) {
    note_fault(FaultKind::bad_operand, pc, std::string("the descriptor of ") + name + " " + why);
    return std::vector<uintptr_t>();
  };
  if (d.base_offset != 0) return bad("has a base offset, which the microscope does not model");
  const Region* const region = engine.dynamic_shared;
  if (region == nullptr) return bad("names shared memory, and the block has no dynamic one, where operands must lie");
  const uintptr_t begin = shared_window_address(pointer_to(region->low));
  std::vector<uintptr_t> packets;
  for (int i = 0; i < extent; i += across ? 8 : 1) {
    for (int k = 0; k < kDepth; k += across ? 1 : 8) {
      const uintptr_t window = packet_of(d, across, i, k);
      if (window < begin || window + 16 > begin + (region->high - region->low))
        return bad("reaches shared address " + hex(window, 5) + ", which is not the block's dynamic shared memory");
      packets.push_back(region->low + window - begin);
    }
  }
  return packets;
}

/// Index in packets_of_operand of the packet with element i at depth k, and the element's byte in it.
std::pair<size_t, size_t> place_of(int type, bool across, int i, int k) {
  const int bytes = has_8_bits(type) ? 1 : 2, in_packet = 16 / bytes;
  const int packet = across ? i / 8 * kDepth + k : i * 2 + k / in_packet;
  return {static_cast<size_t>(packet), static_cast<size_t>((across ? i % 8 : k % in_packet) * bytes)};
}

/// One request of the whole operand, which goes by core matrices as ldmatrix does: the 8 packets of one are a pass, if
/// they lie in different banks.
void count_operand(const std::vector<uintptr_t>& packets, bool across, uint64_t key, uintptr_t pc) {
  Sums& sums =
      count_bulk(*engine.dynamic_shared, packets[0], Kind::load, static_cast<int>(packets.size() * 16), key, pc);
  const size_t matrices = packets.size() / 8;
  for (size_t matrix = 0; matrix < matrices; ++matrix) {
    std::array<std::vector<uintptr_t>, 8> banks;  // groups of four
    for (size_t row = 0; row < 8; ++row) {
      const uintptr_t packet = packets[across ? matrix * 8 + row : matrix / 2 * 16 + row * 2 + matrix % 2] / 16;
      auto& bank = banks[packet % 8];
      if (std::find(bank.begin(), bank.end(), packet) == bank.end()) bank.push_back(packet);
    }
    size_t ways = 0;
    for (const auto& bank : banks) ways = std::max(ways, bank.size());
    sums.wavefronts += static_cast<int64_t>(ways);
    sums.worst_ways = std::max(sums.worst_ways, static_cast<int>(ways));
  }
  sums.ideal_wavefronts += static_cast<int64_t>(matrices);
}

double number(int type, const void* element) {
  if (has_8_bits(type)) {
    __nv_fp8_e4m3 code;
    std::memcpy(&code.__x, element, sizeof code.__x);
    return static_cast<double>(static_cast<float>(code));
  }
  uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof bits);
  if (type == static_cast<int>(MatrixType::bf16))
    return static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16));
  return static_cast<double>(__half2float(__half(__half_raw{bits})));
}

/// The operand as (depth, extent).
std::vector<double> values_of(const Product& product, const std::vector<uintptr_t>& packets, bool across) {
  const int extent = static_cast<int>(packets.size()) / 2, depth = depth_of(product.type);
  std::vector<double> values(static_cast<size_t>(depth) * static_cast<size_t>(extent));
  for (int k = 0; k < depth; ++k) {
    for (int i = 0; i < extent; ++i) {
      const auto [packet, byte] = place_of(product.type, across, i, k);
      values[static_cast<size_t>(k) * static_cast<size_t>(extent) + static_cast<size_t>(i)] =
          number(product.type, static_cast<const std::byte*>(pointer_to(packets[packet])) + byte);
    }
  }
  return values;
}

/// A as (16, 64), from the registers of each thread: "Register Fragments for wgmma.mma_async.m64nNk16".
std::vector<double> values_of_registers(const Product& product, const Thread* threads) {
  std::vector<double> values(size_t{kRows} * kDepth);
  for (size_t thread = 0; thread < kThreads; ++thread) {
    if (threads[thread].at == Thread::At::done) continue;  // compute() says so
    const size_t warp = thread / 32, lane = thread % 32;
    for (size_t i = 0; i < 8; ++i) {  // elements of the thread, two of each register
      const size_t row = 16 * warp + lane / 4 + i / 2 % 2 * 8, k = lane % 4 * 2 + i % 2 + i / 4 * 8;
      values[k * kRows + row] =
          number(product.type, reinterpret_cast<const std::byte*>(product.a_registers[thread]) + 2 * i);
    }
  }
  return values;
}

void compute(const Product& product, const Thread* threads) {
  const std::vector<double> a = product.a_in_registers ? values_of_registers(product, threads)
                                                       : values_of(product, product.a_packets, product.a_across),
                            b = values_of(product, product.b_packets, product.b_across);
  const auto columns = static_cast<size_t>(product.columns), depth = static_cast<size_t>(depth_of(product.type));
  std::vector<double> sums(kRows * columns, 0.0);
  for (size_t k = 0; k < depth; ++k) {
    for (size_t row = 0; row < kRows; ++row) {
      const double factor = a[k * kRows + row];
      for (size_t column = 0; column < columns; ++column)
        sums[row * columns + column] += factor * b[k * columns + column];
    }
  }
  for (size_t thread = 0; thread < kThreads; ++thread) {
    if (threads[thread].at == Thread::At::done) {
      note_fault(FaultKind::in_flight, product.pc, "a thread ends while its sums may be under way");
      continue;
    }
    const size_t warp = thread / 32, lane = thread % 32;
    for (size_t i = 0; i < columns / 2; ++i) {  // "Accumulator D": eight columns are four sums of a thread
      const size_t row = 16 * warp + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const double before = product.add ? static_cast<double>(product.d[thread][i]) : 0;
      product.d[thread][i] = static_cast<float>(before + sums[row * columns + column]);
    }
  }
  ++engine.state->totals.matrix_multiplies;
  engine.state->totals.tensor_flops += int64_t{2} * kRows * depth_of(product.type) * product.columns;
}

/// The product that the thread's next one is, begun by whichever thread of the warpgroup comes first; null, and a
/// fault, where this thread's is another.
Product* join_product(Warpgroup& warpgroup, const Product& mine) {
  Asynchronous& state = engine.current->asynchronous;
  const uint64_t index = state.products++ - warpgroup.finished;
  if (index < warpgroup.products.size()) {
    Product& product = warpgroup.products[index];
    if (product.same_as(mine)) return &product;
    note_fault(
        FaultKind::warp_mismatch, mine.pc,
        "other threads of the warpgroup start another wgmma, or in another group, at " + text_of(where_is(product.pc)));
    return nullptr;
  }
  Product& product = warpgroup.products.emplace_back(mine);
  if (!mine.a_in_registers) product.a_packets = packets_of_operand(mine.a, kRows, mine.a_across, "A", mine.pc);
  product.b_packets = packets_of_operand(mine.b, mine.columns, mine.b_across, "B", mine.pc);
  const auto key = static_cast<uint64_t>(mine.pc) << 8;
  if (engine.state->options.count && product.readable()) {
    if (!mine.a_in_registers) count_operand(product.a_packets, mine.a_across, key, mine.pc);
    count_operand(product.b_packets, mine.b_across, key | 1, mine.pc);
  }
  count_operation(mine.pc, "wgmma");
  return &product;
}

}  // namespace

void warpgroup_fence() { engine.current->asynchronous.fenced = true; }

void warpgroup_commit() { ++engine.current->asynchronous.groups; }

namespace {

/// Registers of the running thread are a product's from here on.
void give_to_product(const void* registers, size_t bytes, bool operand) {
  Asynchronous& state = engine.current->asynchronous;
  const auto low = reinterpret_cast<uintptr_t>(registers);
  auto it = std::find_if(state.accumulators.begin(), state.accumulators.end(),
                         [&](const Accumulator& known) { return known.low == low; });
  if (it == state.accumulators.end()) it = state.accumulators.insert(it, Accumulator{});
  *it = {low, low + bytes, state.groups, Accumulator::Is::in_flight, operand};
}

/// What keeps wgmma from operands of this type; empty if nothing does.
std::string refused(const Product& product) {
  const auto type = static_cast<MatrixType>(product.type);
  if (type == MatrixType::bf16 || type == MatrixType::f16) return "";
  if (type != MatrixType::e4m3) return "the microscope has no wgmma of this type";
  if (product.a_in_registers) return "the microscope has no wgmma of 8 bits with A in registers";
  if (!product.a_across && !product.b_across) return "";
  return "operands of 8 bits must have neighbours along the depth: wgmma transposes only those of 16";
}

void multiply(Product mine, float* d, const uint32_t* a_registers) {
  const uintptr_t pc = mine.pc;
  if (const std::string why = refused(mine); !why.empty()) return note_fault(FaultKind::bad_operand, pc, why);
  Thread& thread = *engine.current;
  Asynchronous& state = thread.asynchronous;
  const size_t index = thread.number / kThreads;
  if ((thread.number % engine.apart / kThreads + 1) * kThreads > engine.threads_of_block)
    return note_fault(FaultKind::warp_mismatch, pc, "wgmma needs the 128 threads of a warpgroup");
  Warpgroup& warpgroup = engine.warpgroups[index];
  size_t& agent = warpgroup.agents[thread.number % kThreads / 32];
  if (agent == 0) agent = new_agent();
  if (!state.fenced) {
    note_fault(FaultKind::in_flight, pc,
               "no wgmma.fence came before, or its sums were touched since: registers may not be in order");
  }
  mine.group = state.groups;
  Product* const product = join_product(warpgroup, mine);
  if (product == nullptr) return;
  product->d[thread.number % kThreads] = d;
  ++product->came;
  give_to_product(d, static_cast<size_t>(mine.columns) * 2, false);
  if (mine.a_in_registers) {
    product->a_registers[thread.number % kThreads] = a_registers;
    give_to_product(a_registers, 4 * sizeof(uint32_t), true);
  }

  if (!engine.state->options.races || thread.number % 32 != 0) return;  // one lane for each warp
  const auto key = static_cast<uint64_t>(pc) << 8;
  const uint16_t site_a = site_of(key, pc, Kind::load, kRows * kDepth * 2).index,
                 site_b = site_of(key | 1, pc, Kind::load, mine.columns * kDepth * 2).index;
  Region& region = *engine.dynamic_shared;
  for (const uintptr_t packet : product->a_packets) agent_loads(region, packet, agent, state.groups, site_a);
  for (const uintptr_t packet : product->b_packets) agent_loads(region, packet, agent, state.groups, site_b);
}

Product product_of(MatrixType type, int columns, uint64_t b, bool add, bool b_across, const void* pc) {
  Product product;
  product.type = static_cast<int>(type), product.columns = columns, product.b = b, product.add = add;
  product.b_across = b_across, product.pc = reinterpret_cast<uintptr_t>(pc);
  return product;
}

}  // namespace

void warpgroup_multiply(MatrixType type, int columns, float* d, uint64_t a, uint64_t b, bool add, bool a_across,
                        bool b_across) {
  Product mine = product_of(type, columns, b, add, b_across, __builtin_return_address(0));
  mine.a = a, mine.a_across = a_across;
  multiply(std::move(mine), d, nullptr);
}

void warpgroup_multiply_registers(MatrixType type, int columns, float* d, const uint32_t* a, uint64_t b, bool add,
                                  bool b_across) {
  Product mine = product_of(type, columns, b, add, b_across, __builtin_return_address(0));
  mine.a_in_registers = true;
  multiply(std::move(mine), d, a);
}

void warpgroup_wait(int newest) {
  Asynchronous& state = engine.current->asynchronous;
  const auto left = static_cast<uint32_t>(newest);
  state.wanted = state.groups > left ? state.groups - left : 0;
  wait(Thread::At::warpgroup, __builtin_return_address(0));
}

bool finish_products(Thread& thread) {
  const size_t index = thread.number / kThreads;
  Asynchronous& state = thread.asynchronous;
  if (state.wanted == 0 || index >= engine.warpgroups.size()) return true;
  Warpgroup& warpgroup = engine.warpgroups[index];
  const Thread* const threads = engine.threads.data() + index * kThreads;
  const bool all_committed = std::all_of(
      threads, threads + kThreads, [&](const Thread& other) { return other.asynchronous.groups >= state.wanted; });
  if (!all_committed) return false;
  while (!warpgroup.products.empty() && warpgroup.products.front().group < state.wanted) {
    const Product& product = warpgroup.products.front();
    if (product.came != kThreads) {
      note_fault(FaultKind::warp_mismatch, product.pc,
                 std::to_string(kThreads - product.came) + " threads of the warpgroup do not come to this wgmma");
    } else if (product.readable()) {
      compute(product, threads);
    }
    warpgroup.products.pop_front();
    ++warpgroup.finished;
  }
  if (const size_t agent = warpgroup.agents[thread.number % kThreads / 32]; agent != 0) {
    uint32_t& done = engine.agents[agent - engine.first_agent].done;
    done = std::max(done, state.wanted);
    raise(state.known, agent, state.wanted);
  }
  for (Accumulator& known : state.accumulators) {
    if (known.is == Accumulator::Is::in_flight && known.group < state.wanted) known.is = Accumulator::Is::landed;
  }
  return true;
}

namespace {

void settle(const void* registers, int count, uintptr_t pc) {
  const auto low = reinterpret_cast<uintptr_t>(registers), high = low + static_cast<uintptr_t>(count) * 4;
  for (Accumulator& known : engine.current->asynchronous.accumulators) {
    if (known.low >= high || low >= known.high) continue;
    if (known.is == Accumulator::Is::in_flight) {
      note_fault(FaultKind::in_flight, pc,
                 std::string(known.operand ? "this operand may still be read" : "these sums may be under way") +
                     ": no wgmma.wait_group has waited for them");
    } else {
      known.is = Accumulator::Is::settled;
    }
  }
}

}  // namespace

void warpgroup_settle(const float* d, int count) {
  settle(d, count, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
void warpgroup_settle(const uint32_t* a, int count) {
  settle(a, count, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

void touch_registers(uintptr_t address, int bytes, Kind kind, uintptr_t pc) {
  Asynchronous& state = engine.current->asynchronous;
  for (const Accumulator& known : state.accumulators) {
    if (known.low >= address + static_cast<uintptr_t>(bytes) || address >= known.high) continue;
    if (known.operand && kind == Kind::load) continue;  // wgmma changes it as little
    const std::string touches = std::string(kind == Kind::load ? "reads" : "changes") +
                                (known.operand ? " an operand of wgmma before " : " a sum of wgmma before ");
    if (known.is == Accumulator::Is::in_flight) {
      note_fault(FaultKind::in_flight, pc, touches + "wgmma.wait_group has waited for it");
    } else if (known.is == Accumulator::Is::landed) {
      note_fault(FaultKind::in_flight, pc, touches + "wgmma_settle: nvcc may have moved it up");
    }
    state.fenced = false;
  }
}

}  // namespace tenfold::simt
