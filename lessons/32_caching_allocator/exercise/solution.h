#pragma once
// The kept solution of exercise 32; CI proves that it passes.
#include <algorithm>
#include <cstdint>
#include <vector>

/// A part of a segment, which a tensor uses or nobody.
struct Block {
  int64_t bytes = 0;
  bool in_use = false;
};

/// What one cudaMalloc brought, cut into blocks in the order of their addresses.
using Segment = std::vector<Block>;

inline bool is_in_use(const Segment& segment) {
  return std::any_of(segment.begin(), segment.end(), [](const Block& block) { return block.in_use; });
}

inline int64_t free_bytes(const Segment& segment) {
  int64_t bytes = 0;
  for (const Block& block : segment) bytes += block.in_use ? 0 : block.bytes;
  return bytes;
}

/// Bytes that empty_cache() gives back to the driver.
inline int64_t returnable_bytes(const std::vector<Segment>& segments) {
  int64_t bytes = 0;
  for (const Segment& segment : segments) {
    if (!is_in_use(segment)) bytes += free_bytes(segment);
  }
  return bytes;
}

/// Bytes that no tensor uses, and that empty_cache() cannot give back.
inline int64_t stranded_bytes(const std::vector<Segment>& segments) {
  int64_t bytes = 0;
  for (const Segment& segment : segments) {
    if (is_in_use(segment)) bytes += free_bytes(segment);
  }
  return bytes;
}

/// Whether a tensor of `bytes` can be had: from the cache, or from the driver, which has `free_on_card` bytes now.
inline bool can_allocate(const std::vector<Segment>& segments, int64_t bytes, int64_t free_on_card) {
  for (const Segment& segment : segments) {
    int64_t gap = 0;  // free neighbours, merged
    for (const Block& block : segment) {
      gap = block.in_use ? 0 : gap + block.bytes;
      if (gap >= bytes) return true;
    }
  }
  return free_on_card + returnable_bytes(segments) >= bytes;
}
