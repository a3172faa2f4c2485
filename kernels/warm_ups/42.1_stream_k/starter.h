#pragma once
// Your answer to exercise 42.1. Build and check it with: ./tenfold exercise 42.1
#include <cstdint>
#include <vector>

/// Iterations [begin, end) of one tile.
struct Part {
  int64_t tile, begin, end;
};

/// What block `block` of `blocks` computes of a GEMM of `tiles` tiles with `depth` iterations each, in its order. There
/// are no more blocks than iterations.
inline std::vector<Part> parts_of_block(int64_t tiles, int64_t depth, int64_t blocks, int64_t block) {
  // Hint: put the iterations of all tiles in one line. Where does the share of this block begin, and where does it end?
  std::vector<Part> parts;
  for (int64_t tile = block; tile < tiles; tile += blocks) parts.push_back({tile, 0, depth});
  return parts;
}
