#pragma once
// How lesson 13's stream is read, and what an epoch of it holds.

#include "common/measure/trial.h"
#include "record_stream.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace tenfold::inline lesson_13 {

inline constexpr Setting<int64_t> kShards{"shards", 8, "shards of the stream that each rank reads in turn"};
inline constexpr Setting<int64_t> kBuffer{"buffer", 256, "samples that a shuffle buffer holds"};

/// Notes what an epoch of `size` samples reads: how many samples twice or more, and how many not at all.
inline void note_samples_read(const Trial& trial, int64_t size, bool sharded) {
  const int64_t readers = trial.get(kShards) * trial.world_size;
  const auto times = times_read(size, readers, trial.get(kBuffer), trial.seed, sharded);
  const auto duplicates = [](double sum, int64_t n) { return sum + static_cast<double>(std::max<int64_t>(0, n - 1)); };
  const int64_t read = std::accumulate(times.begin(), times.end(), int64_t{0});
  trial.note("samples", static_cast<double>(size), "samples");
  trial.note("read in an epoch", static_cast<double>(read), "samples");
  trial.note("of them duplicates", std::accumulate(times.begin(), times.end(), 0.0, duplicates), "samples");
  trial.note("never read", static_cast<double>(std::ranges::count(times, 0)), "samples");
}

}  // namespace tenfold::inline lesson_13
