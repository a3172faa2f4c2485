#include <sys/mman.h>

#include "common/dry_gpu/state.h"

namespace tenfold::dry {
namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr size_t kSmall = size_t{1} << 20;  // below, allocations share a page

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// Address space at a multiple of 2 MiB. No page of it is there before somebody writes to it, however much it is.
char* reserve(size_t bytes) {
  const size_t whole = bytes + kPage;
  void* const memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(memory);
  char* const aligned = reinterpret_cast<char*>(rounded(reinterpret_cast<size_t>(begin), kPage));
  if (aligned > begin) munmap(begin, static_cast<size_t>(aligned - begin));
  if (char* const end = aligned + bytes; end < begin + whole) munmap(end, static_cast<size_t>(begin + whole - end));
  // A page of 2 MiB for a value of 4 bytes would be RAM that nobody asked for.
  madvise(aligned, bytes, MADV_NOHUGEPAGE);
  return aligned;
}

template <class Map>
auto holding(Map& map, const void* address, const auto& bytes) {
  auto at = map.upper_bound(const_cast<char*>(static_cast<const char*>(address)));
  if (at == map.begin()) return map.end();
  --at;
  return static_cast<const char*>(address) < at->first + bytes(at->second) ? at : map.end();
}

}  // namespace

int64_t bytes_on_card(size_t bytes) {
  return static_cast<int64_t>(bytes < kSmall ? rounded(bytes, 512) : rounded(bytes, kPage));
}

bool take(int device, int64_t bytes) {
  const std::lock_guard guard(state().lock);
  Device& of = state().devices[static_cast<size_t>(device)];
  if (bytes > 0 && of.used + bytes > of.memory_bytes) return false;
  of.used += bytes;
  of.peak = std::max(of.peak, of.used);
  return true;
}

cudaError_t allocate(void** address, size_t bytes, int device) {
  if (address == nullptr) return fail(cudaErrorInvalidValue);
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard guard(state().lock);
  if (!take(device, bytes_on_card(bytes))) return fail(cudaErrorMemoryAllocation);
  const size_t mapped = rounded(bytes, 4096);
  char* const memory = reserve(mapped);
  if (memory == nullptr) {
    take(device, -bytes_on_card(bytes));
    return fail(cudaErrorMemoryAllocation);
  }
  state().blocks[memory] = {device, bytes, mapped};
  ++state().counts.allocations;
  *address = memory;
  return cudaSuccess;
}

cudaError_t release(void* address) {
  if (address == nullptr) return cudaSuccess;
  const std::lock_guard guard(state().lock);
  const auto block = state().blocks.find(static_cast<char*>(address));
  if (block == state().blocks.end()) return fail(cudaErrorInvalidValue);
  take(block->second.device, -bytes_on_card(block->second.bytes));
  munmap(address, block->second.mapped);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (state().ordering != nullptr) state().ordering->gone({.begin = begin, .end = begin + block->second.mapped});
  state().blocks.erase(block);
  ++state().counts.frees;
  return cudaSuccess;
}

const std::pair<char* const, Block>* block_of(const void* address) {
  const std::lock_guard guard(state().lock);
  const auto found = holding(state().blocks, address, [](const Block& block) { return block.mapped; });
  return found == state().blocks.end() ? nullptr : &*found;
}

bool is_pinned(const void* address) {
  const std::lock_guard guard(state().lock);
  return holding(state().pinned, address, [](size_t bytes) { return bytes; }) != state().pinned.end();
}

}  // namespace tenfold::dry
