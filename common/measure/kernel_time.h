#pragma once
// How long a kernel takes, on cold or hot caches, alone or compared with others that do the same.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenfold {

/// What a launch finds in the caches. Inputs that fit into an L2 make the difference.
enum class Caches {
  cold,  ///< nothing of use: more bytes than any L2 holds are read before each launch
  hot    ///< what the launch before it left: a sample is kHotLaunches that follow each other at once
};

inline constexpr int kHotLaunches = 20;

/// Times launches on one device, by the clock of take_times(). On CUDA it holds 256 MiB for cold caches.
class LaunchTimer {
 public:
  LaunchTimer(torch::Device device, Caches caches);
  /// One sample: seconds of one launch of the work that `launch` queues on the current stream.
  double seconds(const std::function<void()>& launch) const;

 private:
  torch::Device device_;
  Caches caches_;
  torch::Tensor flush_;
};

/// One of several ways to do the same operation.
struct Contender {
  std::string name;
  std::function<void()> launch;  ///< queues the work on the current stream
  /// Launches the work, on results that were spoilt before, and says what is wrong with the new ones; empty: nothing.
  std::function<std::string()> complaint;
};

inline constexpr int kSamples = 21;

/// Seconds of `samples` launches of every contender: [contender][sample]. The contenders take turns: in each round
/// every one is timed once, in an order that the seed draws, so that what slows the machine for a moment slows all of
/// them. All are checked before the first sample and after the last; without samples they are only checked. Throws
/// std::runtime_error, "NAME: COMPLAINT", for a wrong result.
std::vector<std::vector<double>> seconds_in_turn(torch::Device device, Caches caches,
                                                 const std::vector<Contender>& contenders, uint64_t seed,
                                                 int samples = kSamples);

}  // namespace tenfold
