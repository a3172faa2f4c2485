#pragma once
// Your answer to exercise 13. Build and check it with: ./tenfold exercise 13
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

/// Samples 0 .. size-1 of a stream. Shard s of `shards` has the samples s, s + shards, s + 2 shards, ...
struct StreamSettings {
  int64_t size = 0;
  int shards = 1;
  int64_t buffer = 1;  ///< samples of a shard that wait in memory; each time one of them is handed out at random
  uint64_t seed = 0;
};

/// What a checkpoint keeps of a stream: how many samples of each shard were handed out in this epoch. Nothing else: the
/// samples that wait in a buffer may be images.
struct StreamState {
  int64_t epoch = 0;
  std::vector<int64_t> handed_out;  ///< a number for each shard of the stream, also of shards of other ranks
};

/// Rank `rank` of `ranks` reads the shards rank, rank + ranks, rank + 2 ranks, ... in turn: a sample of each that has
/// not ended.
class ShuffledStream {
 public:
  /// Goes on after `from`; without handed_out, at the beginning of its epoch.
  ShuffledStream(const StreamSettings& settings, int rank, int ranks, const StreamState& from = {})
      : settings_(settings), random_(settings.seed) {
    // Hint: from.handed_out[s] samples of shard s were handed out before. Which samples are then in its buffer? And
    // what may the random choices of shard s depend on, so that another rank can go on with it?
    for (int s = rank; s < settings.shards; s += ranks) {
      Shard shard{.next = s};
      while (static_cast<int64_t>(shard.waiting.size()) < settings.buffer && shard.next < settings.size)
        shard.waiting.push_back(std::exchange(shard.next, shard.next + settings.shards));
      shards_.push_back(shard);
    }
  }

  /// The next sample of this rank; nothing at the end of the epoch.
  std::optional<int64_t> next() {
    for (size_t tried = 0; tried < shards_.size(); ++tried) {
      Shard& shard = shards_[std::exchange(turn_, (turn_ + 1) % shards_.size())];
      if (shard.waiting.empty()) continue;
      auto& chosen = shard.waiting[random_() % shard.waiting.size()];
      const int64_t sample = chosen;
      if (shard.next < settings_.size) {
        chosen = std::exchange(shard.next, shard.next + settings_.shards);
      } else {
        chosen = shard.waiting.back();
        shard.waiting.pop_back();
      }
      return sample;
    }
    return std::nullopt;
  }

  /// What another ShuffledStream needs to go on after the sample that was handed out last.
  StreamState state() const { return {}; }

 private:
  struct Shard {
    int64_t next;  // the number of the sample to read next
    std::vector<int64_t> waiting = {};
  };

  StreamSettings settings_;
  std::mt19937_64 random_;
  std::vector<Shard> shards_;  // of this rank
  size_t turn_ = 0;
};

/// The states of all ranks, saved at the same time, as one.
inline StreamState merged(const std::vector<StreamState>& states) { return states.front(); }
