// installs as <tenfold/epoch_plan.h>
#pragma once
// Which samples make up which batch: of every epoch, of every rank.

#include "sample_random.h"

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tenfold {

/// One of `count` shards of a data set or stream: what one rank, or one reader, reads.
struct ShardIndex {
  int64_t index = 0, count = 1;
};

/// What becomes of the samples that do not fill a batch on every rank.
enum class Tail {
  keep,  ///< the epoch's last batch is shorter: each sample exactly once
  drop,  ///< they are left out of this epoch; the next one shuffles anew
};

inline std::string to_string(Tail tail) { return tail == Tail::keep ? "keep" : "drop"; }

/// Throws std::invalid_argument unless 0 <= index < count.
inline void require_valid(const ShardIndex& shard, const std::string& who) {
  if (shard.index < 0 || shard.index >= shard.count)
    throw std::invalid_argument(who + ": shard " + std::to_string(shard.index) + " of " + std::to_string(shard.count) +
                                " does not exist");
}

/// 0 to size - 1 in the order of an epoch: shuffled (Fisher and Yates) by seed and epoch, or ascending.
inline std::vector<int64_t> epoch_order(int64_t size, uint64_t seed, int64_t epoch, bool shuffle) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!shuffle) return order;
  SampleRandom random(seed, epoch, -1);  // no sample has this number
  for (int64_t i = size - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.below(i + 1))]);
  return order;
}

/// The batches of one rank. Step b of all ranks together takes positions b * batch * ranks onwards of the epoch's
/// order, dealt out one by one, so R ranks with batches of B train on what one rank with batches of R * B trains on.
///
/// All ranks make equally many steps. With Tail::keep the ranks' last batches differ by at most one sample, and where
/// fewer samples than ranks remain, the last ranks' batch is empty (a mean over it would be NaN).
class EpochPlan {
 public:
  /// Throws std::invalid_argument for sizes below 1, a shard that does not exist, or Tail::drop with less than one
  /// batch.
  EpochPlan(int64_t size, int64_t batch, ShardIndex rank, Tail tail) : size_(size), batch_(batch), rank_(rank) {
    if (size < 1) throw std::invalid_argument("EpochPlan: the data set is empty");
    if (batch < 1) throw std::invalid_argument("EpochPlan: batch must be at least 1, got " + std::to_string(batch));
    require_valid(rank, "EpochPlan");
    const int64_t joint = batch * rank.count;
    batches_ = tail == Tail::keep ? (size + joint - 1) / joint : size / joint;
    if (batches_ == 0)
      throw std::invalid_argument("EpochPlan: " + std::to_string(size) + " samples do not fill one batch of " +
                                  std::to_string(batch) + " on each of " + std::to_string(rank.count) +
                                  " ranks; use Tail::keep or a smaller batch");
  }

  int64_t batches() const { return batches_; }

  /// The samples of this rank's batch `index`, 0 <= index < batches(), in `order` (of epoch_order).
  std::vector<int64_t> samples(const std::vector<int64_t>& order, int64_t index) const {
    const int64_t joint = batch_ * rank_.count, begin = index * joint, end = std::min(size_, begin + joint);
    std::vector<int64_t> picked;
    picked.reserve(static_cast<size_t>(batch_));
    for (int64_t i = begin + rank_.index; i < end; i += rank_.count) picked.push_back(order[static_cast<size_t>(i)]);
    return picked;
  }

 private:
  int64_t size_, batch_, batches_ = 0;
  ShardIndex rank_;
};

}  // namespace tenfold
