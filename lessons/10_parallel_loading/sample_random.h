// installs as <tenfold/sample_random.h>
#pragma once
// Random numbers that belong to a sample, not to the thread that happens to load it.
//
// A generator for each worker makes a image's crop depend on how many workers there are, and on which was free first.
// Here a generator is made for each sample from (seed, epoch, sample): any number of workers augments it alike, and
// each epoch anew.

#include <cstdint>
#include <limits>

namespace tenfold {

/// SplitMix64: one addition and three mixing steps a number; serves std:: distributions as a generator, too.
/// Source: G. Steele, D. Lea, C. Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
class SampleRandom {
 public:
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }

  SampleRandom(uint64_t seed, int64_t epoch, int64_t sample)
      : state_(mix(mix(mix(seed) + static_cast<uint64_t>(epoch)) + static_cast<uint64_t>(sample))) {}

  uint64_t operator()() { return mix(state_ += kStep); }

  /// 0 <= x < 1, all 53 bits random.
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// 0 <= x < n, each equally likely; n >= 1. The standard library's distributions differ from one to another; this
  /// does not.
  int64_t below(int64_t n) {
    const auto count = static_cast<uint64_t>(n);
    const uint64_t rejected = (max() - count + 1) % count;  // the numbers that would make some x likelier
    uint64_t number = 0;
    do number = (*this)();
    while (number < rejected);
    return static_cast<int64_t>(number % count);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) + kStep;
  }

  uint64_t state_;
};

}  // namespace tenfold
