#pragma once
// How article D searches for a batch, in C++. It is wrong in more than one way; the page says in which.

#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <functional>

#include "common/measure/byte_budget.h"
#include "common/measure/memory.h"
#include "training.h"

namespace tenfold::inline lesson_20 {

/// Doubles the batch of a forward pass until memory_allocated / max_memory_allocated exceeds `most`; then one sample
/// less. Any error at all means to it that memory ran out: then half of the batch. `forward(n)` returns the outputs,
/// which hold their graph until the next ones take their place.
inline int64_t batch_by_utilisation(torch::Device device, const std::function<torch::Tensor(int64_t)>& forward,
                                    double most = 0.8) {
  int64_t batch = 1;
  try {
    torch::Tensor outputs;
    while (true) {
      outputs = forward(batch);
      // Of the most that was ever allocated, not of the memory that there is.
      const double used = static_cast<double>(live_bytes(device)) / static_cast<double>(peak_bytes(device));
      if (used > most) return batch - 1;
      batch *= 2;
    }
  } catch (const std::exception&) {
    return batch / 2;
  }
}

/// The same for this lesson's training in a memory of `bytes`: in a process that is new, or in one that had its memory
/// full before. Only in the second is the most that was ever allocated the memory that there is, nearly.
inline int64_t search_by_utilisation(const Trial& trial, int64_t bytes, bool was_full) {
  const ByteBudget budget(trial.device, bytes);
  reset_peak(trial.device);
  if (was_full) torch::empty({bytes - bytes / 64}, torch::dtype(torch::kByte).device(trial.device));
  FashionTraining training(trial);
  torch::Tensor images;  // they, too, live until the next ones take their place
  return batch_by_utilisation(trial.device, [&](int64_t batch) {
    images = FashionBatches(trial, batch).next().first;
    return training.forward(images);
  });
}

}  // namespace tenfold::inline lesson_20
