// CUDA's runtime: memory and copies.

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/dry_gpu/races.h"

namespace tenfold::dry {
namespace {

/// Where nothing is computed, what a larger copy or memset would bring is of no use, and would cost RAM.
constexpr size_t kMostWithoutArithmetic = size_t{1} << 20;

bool leaves_out(size_t bytes) { return state().order == Order::at_once && bytes > kMostWithoutArithmetic; }

bool on_device(const void* address) { return block_of(address) != nullptr; }

void count_copy(const void* to, const void* from, size_t bytes) {
  const std::lock_guard guard(state().lock);
  Counts& counts = state().counts;
  ++counts.copies;
  const auto size = static_cast<int64_t>(bytes);
  const bool in = on_device(to) && !on_device(from), out = on_device(from) && !on_device(to);
  if (in) counts.bytes_to_device += size;
  if (out) counts.bytes_to_host += size;
  if ((in && !is_pinned(from)) || (out && !is_pinned(to))) counts.bytes_pageable += size;
}

/// Whether a copy's kind is one of these two pointers. The card sees page-locked memory as its own, too.
bool fits(cudaMemcpyKind kind, const void* to, const void* from) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const auto is = [](bool device, const void* address) {
    return device ? on_device(address) || is_pinned(address) : !on_device(address);
  };
  return kind == cudaMemcpyDefault || (is(to_device, to) && is(from_device, from));
}

Bytes bytes_at(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return {.begin = begin, .end = begin + bytes};
}

/// What a copy or a memset uses of the memory whose order is followed.
std::vector<Access> uses(const void* to, const void* from, size_t bytes) {
  std::vector<Access> all;
  if (from != nullptr && (on_device(from) || is_pinned(from))) all.push_back({bytes_at(from, bytes), false});
  if (on_device(to) || is_pinned(to)) all.push_back({bytes_at(to, bytes), true});
  return all;
}

/// By the clock: over a link, or within a card as a kernel that reads and writes.
void take_time(Item& item, const void* to, const void* from, size_t bytes) {
  const Rates& rates = state().time->rates();
  const auto size = static_cast<double>(bytes);
  const auto* const target = block_of(to);
  const auto* const source = block_of(from);
  if (target != nullptr && source != nullptr && target->second.device == source->second.device) {
    const Lasting of_kernel = lasting(2 * size / rates.bytes_per_s, rates.least, rates);
    item.seconds = of_kernel.shared;
    item.exclusive = of_kernel.exclusive;
  } else {
    // Out of the card that has it.
    item.engine = target != nullptr && source == nullptr ? Engine::to_device : Engine::to_host;
    const bool between_cards = target != nullptr && source != nullptr;
    item.seconds = rates.link_latency + size / (between_cards ? rates.peer_bytes_per_s : rates.link_bytes_per_s);
  }
}

/// In the stream's order. Memory of the host that is not pinned is read now, and whoever writes to it waits for that
/// ("CUDA Runtime API", API synchronization behavior).
cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Stream& stream, bool whole_call_waits) {
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr || !fits(kind, to, from)) return fail(cudaErrorInvalidValue);
  count_copy(to, from, bytes);
  const bool pageable_from = !on_device(from) && !is_pinned(from), pageable_to = !on_device(to) && !is_pinned(to);
  Work work = [=] { std::memmove(to, from, bytes); };
  if (leaves_out(bytes)) {
    work = nullptr;
  } else if (pageable_from && state().order != Order::at_once && stream.capture == nullptr) {
    work = [to, staged = std::vector<char>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    };
  }
  Item item{.kind = "copy"};
  if (state().time != nullptr) take_time(item, to, from, bytes);
  if (follows_order()) {
    item.accesses = uses(to, from, bytes);
    item.user = user_here("cudaMemcpy");
    if (!on_device(from) && !pageable_from && stream.capture == nullptr) {
      if (const std::optional<uint64_t> before = checksum_of_source(from, bytes))
        work = [=, user = item.user, copies = std::move(work)] {
          check_source(from, bytes, *before, user);
          copies();
        };
    }
  }
  item.work = std::move(work);
  if (const cudaError_t error = hand_over(stream, std::move(item)); error != cudaSuccess) return error;
  // From pageable memory a call goes on when all is on its way; up to 64 KB it does so at once ("CUDA Runtime API", API
  // synchronization behavior).
  if (pageable_from && bytes > (size_t{64} << 10) && stream.capture == nullptr) wait_by_the_clock(stream);
  if (stream.capture != nullptr || !(pageable_to || whole_call_waits)) return cudaSuccess;
  {
    const std::lock_guard guard(state().lock);
    ++state().counts.waits;
  }
  synchronize(stream);
  return cudaSuccess;
}

cudaError_t set(void* to, int value, size_t bytes, cudaStream_t handle) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!on_device(to) && !is_pinned(to)) return fail(cudaErrorInvalidValue);
  {
    const std::lock_guard guard(state().lock);
    ++state().counts.memsets;
  }
  Work work = [=] { std::memset(to, value, bytes); };
  Item item{.kind = "memset", .work = leaves_out(bytes) ? nullptr : std::move(work)};
  if (const auto& time = state().time) {
    const Rates& rates = time->rates();
    const Lasting of_memset = lasting(static_cast<double>(bytes) / rates.bytes_per_s, rates.least_memset, rates);
    item.seconds = of_memset.shared;
    item.exclusive = of_memset.exclusive;
  }
  if (follows_order()) {
    item.accesses = uses(to, nullptr, bytes);
    item.user = user_here("cudaMemset");
  }
  return hand_over(*stream, std::move(item));
}

char* memory_of_symbol(const void* symbol, size_t& bytes) {
  const std::lock_guard guard(state().lock);
  const auto found = state().symbols.find(symbol);
  if (found == state().symbols.end()) return nullptr;
  auto& [size, memory] = found->second;
  if (memory == nullptr) {
    void* made = nullptr;
    if (allocate(&made, size, current_device()) != cudaSuccess) return nullptr;
    memory = static_cast<char*>(made);
  }
  bytes = size;
  return memory;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  announce();
  if (const cudaError_t error = forbidden_while_capturing(); error != cudaSuccess) return error;
  return allocate(address, bytes, current_device());
}

cudaError_t cudaFree(void* address) {
  if (const cudaError_t error = forbidden_while_capturing(); error != cudaSuccess) return error;
  if (address == nullptr) return cudaSuccess;
  const auto* const block = block_of(address);
  if (block == nullptr) return fail(cudaErrorInvalidValue);
  if (follows_order()) {
    const std::lock_guard guard(state().lock);
    note_host_waits_for_device(block->second.device);
  }
  run_device(block->second.device);  // it waits for whatever may still use the memory
  return release(address);
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* memory = nullptr;
  if (posix_memalign(&memory, 4096, bytes) != 0) return fail(cudaErrorMemoryAllocation);
  // No number: whoever reads a result there before it has arrived must not find a zero by chance.
  if (state().order != Order::at_once) std::memset(memory, 0xFF, bytes);
  const std::lock_guard guard(state().lock);
  state().pinned[static_cast<char*>(memory)] = bytes;
  *address = memory;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
  if (address == nullptr) return cudaSuccess;
  run_device(-1);
  const std::lock_guard guard(state().lock);
  const auto pinned = state().pinned.find(static_cast<char*>(address));
  if (pinned == state().pinned.end()) return fail(cudaErrorInvalidValue);
  if (follows_order()) state().ordering->gone(bytes_at(address, pinned->second));
  state().pinned.erase(pinned);
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  if (address == nullptr || bytes == 0) return fail(cudaErrorInvalidValue);
  const std::lock_guard guard(state().lock);
  if (is_pinned(address)) return fail(cudaErrorHostMemoryAlreadyRegistered);
  state().pinned[static_cast<char*>(address)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* address) {
  run_device(-1);
  const std::lock_guard guard(state().lock);
  const auto pinned = state().pinned.find(static_cast<char*>(address));
  if (pinned == state().pinned.end()) return fail(cudaErrorHostMemoryNotRegistered);
  if (follows_order()) state().ordering->gone(bytes_at(address, pinned->second));
  state().pinned.erase(pinned);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  if (const auto* const block = block_of(address)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = block->second.device;
    attributes->devicePointer = const_cast<void*>(address);
  } else if (is_pinned(address)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = current_device();
    attributes->hostPointer = attributes->devicePointer = const_cast<void*>(address);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = forbidden_while_capturing(); error != cudaSuccess) return error;
  return copy(to, from, bytes, kind, *stream_of(nullptr), !(on_device(to) && on_device(from)));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  Stream* const stream = stream_of(handle);
  return stream == nullptr ? fail(cudaErrorInvalidResourceHandle) : copy(to, from, bytes, kind, *stream, false);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return fail(cudaErrorInvalidPitchValue);
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error = cudaMemcpyAsync(static_cast<char*>(to) + row * to_pitch,
                                              static_cast<const char*>(from) + row * from_pitch, width, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) { return set(to, value, bytes, nullptr); }

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return set(to, value, bytes, stream);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  size_t bytes = 0;
  *address = memory_of_symbol(symbol, bytes);
  return *address == nullptr ? fail(cudaErrorInvalidSymbol) : cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  size_t size = 0;
  char* const memory = memory_of_symbol(symbol, size);
  if (memory == nullptr) return fail(cudaErrorInvalidSymbol);
  return offset + bytes > size ? fail(cudaErrorInvalidValue) : cudaMemcpy(memory + offset, from, bytes, kind);
}

// The driver's own pools: what is asked for is counted; what they keep back of what was freed is not known.

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) {
  return allocate(address, bytes, current_device());
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  run_all(*stream);
  return release(address);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (device < 0 || device >= static_cast<int>(state().devices.size())) return fail(cudaErrorInvalidDevice);
  *pool = reinterpret_cast<cudaMemPool_t>(&state().devices[static_cast<size_t>(device)]);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const std::lock_guard guard(state().lock);
  const Device& device = *reinterpret_cast<const Device*>(pool);
  switch (attribute) {
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      *static_cast<uint64_t*>(value) = static_cast<uint64_t>(device.used);
      break;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      *static_cast<uint64_t*>(value) = static_cast<uint64_t>(device.peak);
      break;
    case cudaMemPoolAttrReleaseThreshold:
      *static_cast<uint64_t*>(value) = 0;
      break;
    default:
      *static_cast<int*>(value) = 1;
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
}

}  // namespace tenfold::dry
