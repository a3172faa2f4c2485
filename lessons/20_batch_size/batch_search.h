// installs as <tenfold/batch_search.h>
#pragma once
// The largest batch that fits into memory and the batch that trains fastest. Both are found by training, not by a
// formula.

#include <torch/torch.h>

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tenfold {

namespace batch_search_detail {

/// Puts the random state of the CPU and of `device` back at its end: a search must not change what is trained after it.
class KeepRandomState {
 public:
  explicit KeepRandomState(torch::Device device) : device_(device), cpu_(read(torch::kCPU)) {
    if (!device.is_cpu()) on_device_ = read(device);
  }
  ~KeepRandomState() {
    write(torch::kCPU, cpu_);
    if (on_device_) write(device_, *on_device_);
  }
  KeepRandomState(const KeepRandomState&) = delete;
  KeepRandomState& operator=(const KeepRandomState&) = delete;

 private:
  static torch::Tensor read(torch::Device from) {
    at::Generator generator = at::globalContext().defaultGenerator(from);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    return generator.get_state();
  }
  static void write(torch::Device to, const torch::Tensor& state) {
    at::Generator generator = at::globalContext().defaultGenerator(to);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }

  torch::Device device_;
  torch::Tensor cpu_;
  std::optional<torch::Tensor> on_device_;
};

/// Whether an error's text is that of a library which asks for memory itself, and got none: cuBLAS, or cuDNN, none of
/// whose algorithms found room for its workspace.
inline bool may_mean_memory(const std::string& text) {
  return text.find("unable to find an engine to execute this computation") != std::string::npos ||
         text.find("STATUS_ALLOC_FAILED") != std::string::npos;
}

/// How much of a device's memory a try has had, by the statistics of its caching allocator.
class MemoryOfTry {
 public:
  /// `budget`: bytes that a try may have besides what is there now; 0: all that is free.
  MemoryOfTry(torch::Device device, int64_t budget) : device_(device), budget_(budget) {
    if (device.is_cpu()) return;
    const auto stats = now();
    before_search_ = stats.allocated_bytes[kAll].current;
    if (budget > 0) return;
    const auto free = allocator()->getMemoryInfo(index()).first;
    budget_ = static_cast<int64_t>(free) + stats.reserved_bytes[kAll].current - before_search_;
  }

  void begin() {
    if (device_.is_cpu()) return;
    allocator()->resetPeakStats(index());
    const auto stats = now();
    before_ = stats.allocated_bytes[kAll].current;
    refused_ = stats.num_ooms;
  }

  /// The allocator has refused a block since begin(); or at the highest moment less was left than the try had itself.
  /// Never of a CPU, whose libraries say themselves what they lack.
  bool ran_short() const {
    if (device_.is_cpu()) return false;
    const auto stats = now();
    const int64_t highest = stats.allocated_bytes[kAll].peak;
    return stats.num_ooms > refused_ || budget_ - (highest - before_search_) < highest - before_;
  }

 private:
  static constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

  c10::DeviceAllocator* allocator() const { return at::getDeviceAllocator(device_.type()); }
  c10::DeviceIndex index() const { return device_.has_index() ? device_.index() : c10::DeviceIndex{0}; }
  c10::CachingDeviceAllocator::DeviceStats now() const { return allocator()->getDeviceStats(index()); }

  torch::Device device_;
  int64_t budget_, before_search_ = 0, before_ = 0, refused_ = 0;
};

/// Trains one batch and says whether it fits. Only a lack of memory means "no"; any other error is the caller's.
inline bool fits(torch::Device device, int64_t batch, const std::function<void(int64_t batch)>& try_batch,
                 MemoryOfTry& memory) {
  bool enough = true;
  memory.begin();
  try {
    try_batch(batch);
  } catch (const c10::OutOfMemoryError&) {
    enough = false;  // what try_batch had on its stack is gone by now, its graph included
  } catch (const c10::Error& error) {
    if (!may_mean_memory(error.what_without_backtrace()) || !memory.ran_short()) throw;
    enough = false;
  }
  // Blocks of this size would only stand in the way of another size's.
  if (!device.is_cpu()) at::getDeviceAllocator(device.type())->emptyCache();
  return enough;
}

}  // namespace batch_search_detail

struct LargestBatch {
  int64_t batch = 0;          ///< 0 when one sample is too many
  int64_t tries = 0;          ///< batches that were trained, or begun
  int64_t out_of_memory = 0;  ///< of these
};

/// The largest batch from 1 to `limit` that trains without running out of memory: doubled until one does not, then
/// bisected between the last that did and the first that did not. `try_batch(n)` is to train TWO updates of n samples,
/// as the real training does: forward, backward, update. (During the first there is no optimizer state yet.) Its model
/// is not the one that is to be trained; it may serve all tries, if each drops its gradients and optimizer state, also
/// when it fails. The random state is afterwards what it was.
/// "No memory" is c10::OutOfMemoryError; and an error of cuBLAS or cuDNN that may mean it, where memory was short: of
/// `budget` bytes that a try may have on a device, 0 for all that is free. Other errors are not caught. Throws
/// c10::ValueError unless limit > 0.
inline LargestBatch largest_batch(torch::Device device, int64_t limit,
                                  const std::function<void(int64_t batch)>& try_batch, int64_t budget = 0) {
  TORCH_CHECK_VALUE(limit > 0, "largest_batch: limit=", limit, " must be 1 or more");
  const batch_search_detail::KeepRandomState random_state(device);
  batch_search_detail::MemoryOfTry memory(device, budget);
  LargestBatch found;
  int64_t too_many = 0;  // the smallest batch that is known not to fit; 0: none yet
  const auto tried = [&](int64_t batch) {
    ++found.tries;
    if (batch_search_detail::fits(device, batch, try_batch, memory)) {
      found.batch = batch;
    } else {
      ++found.out_of_memory;
      too_many = batch;
    }
  };
  while (found.batch < limit && too_many == 0)
    tried(found.batch > limit / 2 ? limit : std::max<int64_t>(1, 2 * found.batch));
  while (too_many - found.batch > 1) tried(found.batch + (too_many - found.batch) / 2);
  return found;
}

struct BatchRate {
  int64_t batch = 0;
  double samples_per_s = 0;  ///< at the median of its times
};

struct FastestBatch {
  int64_t batch = 0;
  std::vector<BatchRate> rates;  ///< one for each batch, in their order
};

/// 1, 2, 4, ... up to `largest`, which is the last.
inline std::vector<int64_t> doublings(int64_t largest) {
  std::vector<int64_t> batches;
  for (int64_t batch = 1; batch < largest; batch *= 2) batches.push_back(batch);
  batches.push_back(largest);
  return batches;
}

/// The smallest of these batches that trains nearly as many samples per second as the best: more than `share` of them.
/// Where the rate is flat, a larger batch only costs memory and updates. `step_seconds(n)` trains with n samples and
/// returns what one update took, synchronised. All batches are timed in turns, so that a machine that changes its speed
/// favours none; the first turn warms up. No bisection: between two powers of two a rate changes less than it varies.
/// Throws c10::ValueError without a batch or without a round.
inline FastestBatch fastest_batch(const std::vector<int64_t>& batches,
                                  const std::function<double(int64_t batch)>& step_seconds, int rounds = 5,
                                  double share = 0.95) {
  TORCH_CHECK_VALUE(!batches.empty() && rounds > 0, "fastest_batch: needs a batch, and a round");
  std::vector<std::vector<double>> seconds(batches.size());
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < batches.size(); ++i) {
      const double taken = step_seconds(batches[i]);
      if (round > 0) seconds[i].push_back(taken);
    }
  }
  FastestBatch found;
  double best = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    auto& times = seconds[i];
    const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    found.rates.push_back({batches[i], static_cast<double>(batches[i]) / *middle});
    best = std::max(best, found.rates.back().samples_per_s);
  }
  for (const BatchRate& rate : found.rates) {
    if (rate.samples_per_s < share * best || (found.batch != 0 && rate.batch > found.batch)) continue;
    found.batch = rate.batch;
  }
  return found;
}

}  // namespace tenfold
