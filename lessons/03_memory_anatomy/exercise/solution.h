#pragma once
// A solution of exercise 03.
#include <cstdint>
#include <functional>

/// The largest batch whose step peaks at `budget` bytes or less; one sample always fits. `peak_of(batch)` trains a step
/// and returns its peak in bytes. It throws when that is more than the budget, and may be called eight times.
inline int64_t largest_batch(const std::function<int64_t(int64_t batch)>& peak_of, int64_t budget) {
  int64_t batch = 1, peak = peak_of(batch);
  int64_t last_batch = 0, last_peak = 0;
  for (int call = 1; call < 8; ++call) {
    const auto next =
        static_cast<int64_t>(static_cast<double>(batch) * static_cast<double>(budget) / static_cast<double>(peak));
    if (next == batch) break;  // one sample more would not fit
    last_batch = batch, last_peak = peak;
    batch = next, peak = peak_of(batch);
  }
  if (peak == last_peak || last_batch == 0) return batch;
  return batch + (budget - peak) * (batch - last_batch) / (peak - last_peak);
}
