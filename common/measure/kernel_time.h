#pragma once
// How long a kernel takes, on cold or hot caches, alone or compared with others that do the same.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenfold {

/// Times launches on one device, by the clock of take_times(). On CUDA it holds 256 MiB, and before what is timed the
/// GPU spins for 0.3 ms and more while the host queues: else a GPU that waits for the host would count as a slow
/// kernel.
class LaunchTimer {
 public:
  explicit LaunchTimer(torch::Device device);
  /// Seconds of one launch of the work that `launch` queues on the current stream, with nothing of use in the caches.
  double cold(const std::function<void()>& launch) const;
  /// Mean seconds of `count` launches that follow each other at once: each finds what the one before left.
  double hot(const std::function<void()>& launch, int count) const;

 private:
  void keep_busy(int launches) const;

  torch::Device device_;
  torch::Tensor sweep_, sum_;
};

/// Bytes of the cache that all SMs of a GPU share, its L2; 0 for a CPU.
int64_t l2_bytes(torch::Device device);

/// One of several ways to do the same operation.
struct Contender {
  std::string name;
  std::function<void()> launch;  ///< queues the work on the current stream
  /// Launches the work, on results that were spoilt before, and says what is wrong with the new ones; empty: nothing.
  std::function<std::string()> complaint;
};

inline constexpr int kSamples = 21;

/// Seconds of `samples` launches on cold caches of every contender: [contender][sample]. The contenders take turns: in
/// each round every one is timed once, in an order that the seed draws, so that what slows the machine for a moment
/// slows all of them. All are checked before the first sample and after the last; without samples they are only
/// checked. Throws std::runtime_error, "NAME: COMPLAINT", for a wrong result.
std::vector<std::vector<double>> seconds_in_turn(torch::Device device, const std::vector<Contender>& contenders,
                                                 uint64_t seed, int samples = kSamples);

}  // namespace tenfold
