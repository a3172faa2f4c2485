#pragma once
// The records of a shard as a stream: from the first to the last, as a file on tape or over a network would be read.

#include "lessons/10_parallel_loading/loader.h"
#include "stream_loader.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenfold::inline lesson_13 {

/// Which numbers of 0 to size - 1 a shard of a stream holds, and in which order: every count-th one, from shard.index
/// onwards, so that shards differ by at most one; mixed by a buffer. A stream cannot be shuffled as a whole, but it can
/// be read `buffer` samples ahead, each time handing out one of those at random: what is sorted by class comes out
/// mixed, if the buffer is long enough.
class RecordOrder {
 public:
  /// Throws std::invalid_argument for a shard that does not exist or a buffer below 1 (1: no mixing).
  RecordOrder(int64_t size, const ShardIndex& shard, int64_t buffer, uint64_t seed, int64_t epoch)
      : size_(size), next_(shard.index), stride_(shard.count), random_(seed, epoch, -1 - shard.index) {
    require_valid(shard, "RecordOrder");
    if (buffer < 1)
      throw std::invalid_argument("RecordOrder: the buffer must hold at least 1, got " + std::to_string(buffer));
    while (static_cast<int64_t>(waiting_.size()) < buffer && next_ < size_) waiting_.push_back(read());
  }

  /// The next number; nothing at the end.
  std::optional<int64_t> next() {
    if (waiting_.empty()) return std::nullopt;
    auto& chosen = waiting_[static_cast<size_t>(random_.below(static_cast<int64_t>(waiting_.size())))];
    const int64_t record = chosen;
    if (next_ < size_) {
      chosen = read();
    } else {
      chosen = waiting_.back();
      waiting_.pop_back();
    }
    return record;
  }

 private:
  int64_t read() { return std::exchange(next_, next_ + stride_); }

  int64_t size_, next_, stride_;
  SampleRandom random_;
  std::vector<int64_t> waiting_;
};

/// A data set as a stream of its samples. Only the order of `samples` is a stream's; how one is loaded stays as it is.
/// With `sharded` false each reader reads everything: the mistake that lesson 13 counts.
inline Stream stream_of(const Dataset& samples, int64_t buffer, uint64_t seed, bool sharded = true) {
  const auto open = [samples, buffer, seed, sharded](const ShardIndex& shard, int64_t epoch) {
    struct State {
      RecordOrder order;
      int64_t record = 0;
    };
    auto state =
        std::make_shared<State>(State{RecordOrder(samples.size, sharded ? shard : ShardIndex{}, buffer, seed, epoch)});
    StreamReader reader;
    reader.read = [state, samples](SampleRandom& random, const Row& row) {
      const auto next = state->order.next();
      if (!next) return false;
      state->record = *next;
      samples.load(*next, random, row);
      return true;
    };
    reader.skip = [state](int64_t n) {
      while (n-- > 0 && state->order.next()) {
      }
    };
    reader.where = [state, samples] {
      return samples.name ? samples.name(state->record) : "sample " + std::to_string(state->record);
    };
    return reader;
  };
  return {samples.fields, open};
}

/// How often the shards of an epoch, read to their ends, bring each of `size` samples. (size) numbers.
inline std::vector<int64_t> times_read(int64_t size, int64_t shards, int64_t buffer, uint64_t seed,
                                       bool sharded = true) {
  std::vector<int64_t> times(static_cast<size_t>(size));
  for (int64_t i = 0; i < shards; ++i) {
    RecordOrder order(size, sharded ? ShardIndex{i, shards} : ShardIndex{}, buffer, seed, /*epoch=*/0);
    while (const auto record = order.next()) ++times[static_cast<size_t>(*record)];
  }
  return times;
}

}  // namespace tenfold::inline lesson_13
