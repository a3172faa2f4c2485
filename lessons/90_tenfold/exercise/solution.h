#pragma once
// A solution of exercise 90.
#include <algorithm>

/// Seconds that one step takes on one core, by what they are spent on.
struct StepParts {
  double decoding, augmenting, training;
};

/// Which levers are pulled.
struct Pulled {
  int workers = 0;       ///< threads that load while the ranks train, of all ranks together; 0: the ranks load
  int ranks = 1;         ///< processes, each with an equal part of the batch
  bool decoded = false;  ///< the images were decoded once, before the training
};

/// How many times as fast a step is with these levers, on `cores` cores: 1 without any.
inline double speedup(const StepParts& parts, const Pulled& pulled, int cores) {
  const double loading = (pulled.decoded ? 0 : parts.decoding) + parts.augmenting;
  const double work = loading + parts.training;
  // Three limits, and the worst counts: the ranks' training, the workers' loading, and all cores together.
  double seconds = work / cores;
  if (pulled.workers > 0) {
    seconds = std::max({seconds, parts.training / pulled.ranks, loading / pulled.workers});
  } else {
    seconds = std::max(seconds, work / pulled.ranks);
  }
  return (parts.decoding + parts.augmenting + parts.training) / seconds;
}
