#pragma once
// Times of a block of steps: the steady clock and the process's processor time, on CUDA device events as well.

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>

namespace tenfold {

/// What a piece of work took, by each clock.
struct Times {
  double wall = 0;       ///< seconds by the steady clock; on a dry GPU those that the host would have waited, too
  double processor = 0;  ///< seconds of processor time, of all threads of the process
  double thread = 0;     ///< seconds of processor time, of the calling thread
  double device = 0;     ///< seconds between two events of the current stream; 0 on a CPU
  int64_t waits = 0;     ///< of the calling thread
  /// What the device took: by its own clock on CUDA, by the wall's on a CPU.
  double seconds() const { return device > 0 ? device : wall; }
};

/// The host's clocks from its construction on.
class Stopwatch {
 public:
  Stopwatch();
  Times read() const;  ///< without the device's
 private:
  int64_t waits_;
  double processor_, thread_;
  std::chrono::steady_clock::time_point wall_;
  double jumped_;  ///< of a dry GPU's clock
};

/// Times `work`, its queued device work included. On CUDA two events on the current stream enclose it, and the only
/// synchronisation is after the second.
Times take_times(torch::Device device, const std::function<void()>& work);

/// take_times(...).seconds().
double time_block(torch::Device device, const std::function<void()>& work);

/// How often this thread gave up its core to wait for something: voluntary context switches, and page faults that read
/// a disk.
int64_t waits_of_this_thread();

/// How many threads the process has now.
int threads_of_this_process();

}  // namespace tenfold
