#pragma once
// The kept solution of exercise 13; CI proves that it passes.
#include <algorithm>
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
  /// Goes on after `from`; without handed_out, at the beginning of its epoch. A shard's order depends on seed, epoch
  /// and shard alone, so whoever reads it passes over what was handed out and stands where the other one stood.
  ShuffledStream(const StreamSettings& settings, int rank, int ranks, const StreamState& from = {})
      : settings_(settings), state_(from) {
    state_.handed_out.resize(static_cast<size_t>(settings.shards));
    for (int s = rank; s < settings.shards; s += ranks) {
      std::seed_seq seed{settings.seed, static_cast<uint64_t>(from.epoch), static_cast<uint64_t>(s)};
      Shard shard{.index = s, .next = s, .random = std::mt19937_64(seed)};
      while (static_cast<int64_t>(shard.waiting.size()) < settings.buffer && shard.next < settings.size)
        shard.waiting.push_back(std::exchange(shard.next, shard.next + settings.shards));
      for (int64_t passed = 0; passed < handed_out(shard); ++passed) take(shard);
      shards_.push_back(std::move(shard));
    }
    // Shards take turns, so the one whose turn it is has handed out fewer than those before it, if it has not ended.
    for (size_t i = 1; i < shards_.size() && turn_ == 0; ++i) {
      if (!shards_[i].waiting.empty() && handed_out(shards_[i]) < handed_out(shards_[0])) turn_ = i;
    }
  }

  /// The next sample of this rank; nothing at the end of the epoch.
  std::optional<int64_t> next() {
    for (size_t tried = 0; tried < shards_.size(); ++tried) {
      Shard& shard = shards_[std::exchange(turn_, (turn_ + 1) % shards_.size())];
      if (shard.waiting.empty()) continue;
      ++handed_out(shard);
      return take(shard);
    }
    return std::nullopt;
  }

  /// What another ShuffledStream needs to go on after the sample that was handed out last.
  StreamState state() const { return state_; }

 private:
  struct Shard {
    int index;
    int64_t next;  // the number of the sample to read next
    std::mt19937_64 random;
    std::vector<int64_t> waiting = {};
  };

  int64_t& handed_out(const Shard& shard) { return state_.handed_out[static_cast<size_t>(shard.index)]; }

  int64_t take(Shard& shard) const {
    auto& chosen = shard.waiting[shard.random() % shard.waiting.size()];
    const int64_t sample = chosen;
    if (shard.next < settings_.size) {
      chosen = std::exchange(shard.next, shard.next + settings_.shards);
    } else {
      chosen = shard.waiting.back();
      shard.waiting.pop_back();
    }
    return sample;
  }

  StreamSettings settings_;
  StreamState state_;
  std::vector<Shard> shards_;  // of this rank
  size_t turn_ = 0;
};

/// The states of all ranks, saved at the same time, as one.
inline StreamState merged(const std::vector<StreamState>& states) {
  StreamState all = states.front();
  for (const StreamState& state : states) {
    for (size_t s = 0; s < all.handed_out.size(); ++s)
      all.handed_out[s] = std::max(all.handed_out[s], state.handed_out[s]);
  }
  return all;
}
