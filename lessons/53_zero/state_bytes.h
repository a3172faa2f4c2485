#pragma once
// Bytes of model states on a rank, and bytes that it sends, by formula.
//
// In 32 bits a parameter takes 4 bytes, its gradient 4, and AdamW's two averages 8. On N ranks that is for each
// parameter: 16 without sharding, 8 + 8 / N in stage 1, 4 + 12 / N in stage 2, 16 / N in stage 3; where a unit's values
// cannot be divided by 16 N, those of the shards that are filled up, and where a parameter's cannot be divided by
// eight, those of the gap before the next one.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/models/gpt.h"
#include "flat_unit.h"

namespace tenfold::inline lesson_53 {

/// Values of each parameter in each unit of a GPT: the embeddings, each block, the last norm with the head.
using UnitSizes = std::vector<std::vector<int64_t>>;
inline UnitSizes unit_sizes(const GptOptions& options) {
  const int64_t width = options.width, square = width * width;
  UnitSizes units = {{options.vocabulary() * width, options.length * width}};
  // Norm, qkv, projection, norm, up and down: a weight and a bias each.
  units.insert(
      units.end(), static_cast<size_t>(options.layers),
      {width, width, 3 * square, 3 * width, square, width, width, width, 4 * square, 4 * width, 4 * square, width});
  units.push_back({width, width, options.vocabulary() * width});
  return units;
}

/// What a rank has in its shards, and what the whole takes that they are gathered into.
struct Sharded {
  Sharded(const UnitSizes& units, int of_ranks) : ranks(of_ranks) {
    for (const std::vector<int64_t>& unit : units) {
      values += std::reduce(unit.begin(), unit.end());
      last_shard = shard_size(flat_values(unit), of_ranks);
      shards += last_shard;
    }
  }
  int64_t ranks;
  int64_t values = 0;      ///< of the model
  int64_t shards = 0;      ///< of one rank's shards, with what fills them up
  int64_t last_shard = 0;  ///< of the last unit's
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
/// all-gather or a reduce-scatter, both for an all-reduce. Stage 3 gathers twice, but for the last unit, and may do so
/// in 16 bits: `gathered_bytes` for each value.
inline int64_t ring_bytes_of(const Sharded& of, int stage, int64_t gathered_bytes = 4) {
  if (stage == 0) return 2 * (of.ranks - 1) * 4 * of.values / of.ranks;
  const int64_t gathered_again = stage == 3 ? of.shards - of.last_shard : 0;
  return (of.ranks - 1) * (4 * of.shards + gathered_bytes * (of.shards + gathered_again));
}

}  // namespace tenfold::inline lesson_53
