#pragma once
// The GPT of trainings that go on for many updates.

#include <algorithm>
#include <vector>

#include "common/models/gpt.h"

namespace tenfold::gpt {

/// A model that hundreds of updates are affordable for, with tensors that are large enough for averages of 8 bits.
/// `others` take the place of its own settings, or are added to them.
inline std::vector<Assignment> affordable(const std::vector<Assignment>& others = {}) {
  std::vector<Assignment> all = {kLayers(1, 4, 4), kWidth(64, 512, 512), kHeads(4, 8, 8), kLength(32, 512, 512),
                                 kBatch(8, 16, 16)};
  for (const Assignment& other : others) {
    const auto own = std::ranges::find(all, other.name, &Assignment::name);
    if (own == all.end()) {
      all.push_back(other);
    } else {
      *own = other;
    }
  }
  return all;
}

}  // namespace tenfold::gpt
