#pragma once
// Your answer to exercise 32. Build and check it with: ./tenfold exercise 32
#include <cstdint>
#include <vector>

/// A part of a segment, which a tensor uses or nobody.
struct Block {
  int64_t bytes = 0;
  bool in_use = false;
};

/// What one cudaMalloc brought, cut into blocks in the order of their addresses.
using Segment = std::vector<Block>;

/// Bytes that empty_cache() gives back to the driver.
inline int64_t returnable_bytes(const std::vector<Segment>& segments) {
  // Hint: this counts every free block. Can cudaFree give back a part of what cudaMalloc brought?
  int64_t bytes = 0;
  for (const Segment& segment : segments) {
    for (const Block& block : segment) bytes += block.in_use ? 0 : block.bytes;
  }
  return bytes;
}

/// Bytes that no tensor uses, and that empty_cache() cannot give back.
inline int64_t stranded_bytes(const std::vector<Segment>& segments) {
  // Hint: free blocks of which segments?
  return 0;
}

/// Whether a tensor of `bytes` can be had: from the cache, or from the driver, which has `free_on_card` bytes now.
inline bool can_allocate(const std::vector<Segment>& segments, int64_t bytes, int64_t free_on_card) {
  // Hint: a tensor lies in one piece. And before the allocator gives up, what does it do with its unused segments?
  return returnable_bytes(segments) + stranded_bytes(segments) + free_on_card >= bytes;
}
