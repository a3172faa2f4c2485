// Counts how often a kernel's lines run, and what its warps do together there. g++ calls a hook at every basic block of
// a file that was compiled with -fsanitize-coverage=trace-pc; lanes meet by how often each came to a block in this
// turn.
#include <algorithm>
#include <map>

#include "common/microscope/engine.h"

namespace tenfold::simt {

void count_block(uintptr_t pc) {
  const uint64_t key = pc | static_cast<uint64_t>(engine.kernel) << 48;
  Block*& cached = engine.block_cache[(pc ^ pc >> 12) % engine.block_cache.size()];
  if (cached == nullptr || cached->pc != pc || cached->kernel != engine.kernel) {
    Block*& known = engine.state->block_of[key];
    if (known == nullptr) known = &engine.state->blocks.emplace_back(Block{.pc = pc, .kernel = engine.kernel});
    cached = known;
  }
  Block& block = *cached;
  if (block.turn != engine.turn) block.turn = engine.turn, block.next = 0;
  if (block.used == 0) engine.touched_blocks.push_back(&block);
  block.used = std::max(block.used, ++block.next);
  ++block.lanes;
}

void flush_blocks() {
  for (Block* block : engine.touched_blocks) block->issues += std::exchange(block->used, 0);
  engine.touched_blocks.clear();
}

void count_operation(uintptr_t pc, const char* name) {
  OperationCount*& cached = engine.operation_cache[(pc ^ pc >> 8) % engine.operation_cache.size()];
  if (cached == nullptr || cached->pc != pc || cached->name != name || cached->kernel != engine.kernel) {
    auto& all = engine.state->operations;
    const auto found = std::find_if(all.begin(), all.end(), [&](const OperationCount& operation) {
      return operation.pc == pc && operation.name == name && operation.kernel == engine.kernel;
    });
    cached = found != all.end() ? &*found : &all.emplace_back(OperationCount{pc, name, engine.kernel});
  }
  ++cached->count;
}

int begin_kernel(const void* function, dim3 block, size_t shared_bytes) {
  auto& state = *engine.state;
  const auto [found, fresh] = state.kernel_of.try_emplace(function, static_cast<int>(state.kernels.size()));
  if (fresh) state.kernels.push_back({.symbol = symbol_at(reinterpret_cast<uintptr_t>(function))});
  KernelCounts& kernel = state.kernels[static_cast<size_t>(found->second)];
  ++kernel.launches;
  kernel.threads_of_block = int64_t{block.x} * block.y * block.z;
  kernel.shared_bytes = static_cast<int64_t>(shared_bytes);
  return found->second;
}

std::vector<KernelCounts> kernel_counts(const Device::State& state) {
  std::vector<KernelCounts> kernels = state.kernels;
  for (size_t i = 0; i < kernels.size(); ++i) kernels[i].accesses = merged_accesses(state, static_cast<int>(i));
  std::map<std::tuple<int, Where, std::string>, int64_t> operations;
  for (const OperationCount& operation : state.operations)
    operations[{operation.kernel, where_is(operation.pc), operation.name}] += operation.count;
  for (const auto& [key, count] : operations) {
    const auto& [kernel, where, name] = key;
    kernels[static_cast<size_t>(kernel)].operations.push_back({where, name, count});
  }
  // A line may be several blocks, as a loop's head is: it ran as often as the one that ran most. Where a function is
  // inlined in several places, its lines are there in each.
  std::map<std::tuple<int, Where, std::string>, LineCount> copies;
  for (const Block& block : state.blocks) {
    const Where where = where_is(block.pc);
    LineCount& line = copies[{block.kernel, where, inlined_into(block.pc)}];
    if (block.issues >= line.issues) line = {where, block.issues, block.lanes};
  }
  std::map<std::pair<int, Where>, LineCount> lines;
  for (const auto& [key, copy] : copies) {
    LineCount& line = lines[{std::get<0>(key), copy.where}];
    line = {copy.where, line.issues + copy.issues, line.lanes + copy.lanes};
  }
  for (const auto& [key, line] : lines) kernels[static_cast<size_t>(key.first)].lines.push_back(line);
  return kernels;
}

}  // namespace tenfold::simt

// NOLINTBEGIN(bugprone-reserved-identifier): the name is the compiler's
extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() {
  using tenfold::simt::engine;
  if (engine.active && engine.state->options.lines)
    tenfold::simt::count_block(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
// NOLINTEND(bugprone-reserved-identifier)
