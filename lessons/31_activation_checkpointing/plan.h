#pragma once
// Which blocks of a model are recomputed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tenfold::inline lesson_31 {

/// Neighbouring blocks [first, last) that are kept, or recomputed together.
struct Segment {
  int64_t first;
  int64_t last;
  bool recompute;

  int64_t blocks() const { return last - first; }
};

/// All blocks of a model, in order.
using Plan = std::vector<Segment>;

/// From the number of blocks to a plan for them.
using MakePlan = Plan (*)(int64_t layers);

inline Plan keep_all(int64_t layers) {
  Plan plan;
  for (int64_t i = 0; i < layers; ++i) plan.push_back({.first = i, .last = i + 1, .recompute = false});
  return plan;
}

inline Plan every_block(int64_t layers) {
  Plan plan = keep_all(layers);
  for (Segment& segment : plan) segment.recompute = true;
  return plan;
}

/// The blocks 0, 2, 4, ...: with an even number of layers, backward() starts with a block that was kept.
inline Plan every_second(int64_t layers) {
  Plan plan = keep_all(layers);
  for (size_t i = 0; i < plan.size(); i += 2) plan[i].recompute = true;
  return plan;
}

/// About sqrt(layers) segments of sqrt(layers) blocks: fewer inputs are kept, but a whole segment is alive at a time.
/// Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
inline Plan square_root(int64_t layers) {
  const auto blocks = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(layers))));
  Plan plan;
  for (int64_t i = 0; i < layers; i += blocks)
    plan.push_back({.first = i, .last = std::min(i + blocks, layers), .recompute = true});
  return plan;
}

}  // namespace tenfold::inline lesson_31
