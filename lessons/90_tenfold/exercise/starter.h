#pragma once
// Your answer to exercise 90. Build and check it with: ./tenfold exercise 90

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
  // Hint: gains multiply only while nothing else limits the step. What does each lever shorten, and what limits it?
  const double all = parts.decoding + parts.augmenting + parts.training;
  double gain = pulled.ranks;
  if (pulled.decoded) gain *= all / (all - parts.decoding);
  if (pulled.workers > 0) gain *= all / parts.training;
  return gain;
}
