#pragma once
// Bytes of model states on a rank, and bytes that it sends, by formula.
//
// In 32 bits a parameter takes 4 bytes, its gradient 4, and AdamW's two averages 8. On N ranks that is for each
// parameter: 16 without sharding, 8 + 8 / N in stage 1, 4 + 12 / N in stage 2, 16 / N in stage 3; where a unit's values
// cannot be divided by N, those of the shards that are filled up.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/models/gpt.h"
#include "flat_unit.h"

namespace tenfold::inline lesson_53 {

/// Values in each unit of a GPT: the embeddings, each block, the last norm with the head.
inline std::vector<int64_t> unit_values(const GptOptions& options) {
  std::vector<int64_t> units = {(options.vocabulary() + options.length) * options.width};
  units.insert(units.end(), static_cast<size_t>(options.layers), block_parameter_bytes(options.width) / 4);
  units.push_back((options.vocabulary() + 2) * options.width);
  return units;
}

/// What a rank has in its shards, and what the whole takes that they are gathered into.
struct Sharded {
  Sharded(const std::vector<int64_t>& units, int of_ranks) : ranks(of_ranks) {
    for (const int64_t unit : units) {
      values += unit;
      shards += shard_size(unit, ranks);
    }
  }
  int64_t ranks;
  int64_t values = 0;  ///< of the model
  int64_t shards = 0;  ///< of one rank's shards, with what fills them up
  int64_t whole() const { return shards * ranks; }
};

/// Parameters, gradients and averages that are alive between two updates.
inline int64_t state_bytes(const Sharded& of, int stage) {
  switch (stage) {
    case 0:
      return 16 * of.values;
    case 1:
      return 8 * of.whole() + 8 * of.shards;
    case 2:
      return 4 * of.whole() + 12 * of.shards;
    default:
      return 16 * of.shards;
  }
}

/// What a rank sends in an update, if every collective goes around a ring: N - 1 steps of a shard each for an
/// all-gather or a reduce-scatter, both for an all-reduce. Stage 3 gathers twice.
inline int64_t ring_bytes_of(const Sharded& of, int stage) {
  if (stage == 0) return 2 * (of.ranks - 1) * 4 * of.values / of.ranks;
  return (stage == 3 ? 3 : 2) * (of.ranks - 1) * 4 * of.shards;
}

}  // namespace tenfold::inline lesson_53
