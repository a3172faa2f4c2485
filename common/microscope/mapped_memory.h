#pragma once
// Memory by the page, and addresses as numbers.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace tenfold::simt {

/// Zeroed pages, which cost nothing until they are touched; munmap() gives them back. Throws std::bad_alloc.
inline void* map_pages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

/// The engine counts with addresses; this is the one way back.
inline void* pointer_to(uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace tenfold::simt
