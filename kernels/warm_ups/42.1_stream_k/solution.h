#pragma once
// The kept solution of exercise 42.1; CI proves that it passes.
#include <algorithm>
#include <cstdint>
#include <vector>

/// Iterations [begin, end) of one tile.
struct Part {
  int64_t tile, begin, end;
};

/// What block `block` of `blocks` computes of a GEMM of `tiles` tiles with `depth` iterations each, in its order. There
/// are no more blocks than iterations.
inline std::vector<Part> parts_of_block(int64_t tiles, int64_t depth, int64_t blocks, int64_t block) {
  const int64_t length = tiles * depth / blocks, longer = tiles * depth % blocks;  // the first ones have one more
  int64_t at = block * length + std::min(block, longer);
  const int64_t end = at + length + (block < longer ? 1 : 0);
  std::vector<Part> parts;
  while (at < end) {
    const int64_t tile = at / depth, part_end = std::min(end, (tile + 1) * depth);
    parts.push_back({tile, at - tile * depth, part_end - tile * depth});
    at = part_end;
  }
  return parts;
}
