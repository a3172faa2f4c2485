#pragma once
// Your answer to exercise 20. Build and check it with: ./tenfold exercise 20
#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <functional>

/// The largest batch from 1 to `limit` that `try_batch` gets through without c10::OutOfMemoryError; 0 if there is none.
/// Needs at most 2 log2(limit) + 2 tries. What else `try_batch` throws reaches the caller.
inline int64_t largest_batch(int64_t limit, const std::function<void(int64_t batch)>& try_batch) {
  // Hint: where between the last batch that fitted and the first that did not is the largest? And which errors are
  // memory's?
  int64_t batch = 1;
  try {
    while (batch <= limit) {
      try_batch(batch);
      batch *= 2;
    }
  } catch (const std::exception&) {
    return batch / 2;
  }
  return batch / 2;
}
