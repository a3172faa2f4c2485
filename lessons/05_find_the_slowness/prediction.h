#pragma once
// SPOILER: solve the exercise first. What each inefficiency should cost, from what was counted on the repaired program.

#include <algorithm>

#include "common/harness/lesson.h"
#include "program.h"

namespace tenfold::inline lesson_05 {

/// Seconds that the inefficiencies add to an epoch. E and F cost memory; their time is that of freeing it.
inline double added_seconds(const Planted& planted, const Counted& repaired) {
  const auto updates = static_cast<double>(repaired.get(kUpdates));
  const auto batch = static_cast<double>(repaired.get(convnet::kBatch));
  double more = 0;
  // Normalising grows with the images, but for what its operators cost on a single number.
  if (planted.a) {
    const Region& batches = repaired.region("normalise");
    const double calls = static_cast<double>(batches.operators) * repaired.ceiling("cpu_new_tensor_op_seconds");
    more += std::max(0.0, batches.seconds - calls) * (static_cast<double>(repaired.get(kImages)) / batch - 1);
  }
  // A forward pass takes what one of a held-out batch takes.
  if (planted.b)
    more += updates * repaired.region("validation").seconds / static_cast<double>(repaired.get(kValidated));
  // Two numbers of each image are selected and read: four operators.
  if (planted.c) more += updates * batch * 4 * repaired.ceiling("cpu_new_tensor_op_seconds");
  // The gradient of the images has the multiplications of the first convolution; they take what those of a forward
  // pass take on average.
  if (planted.d) {
    const Region& forward = repaired.region("forward");
    const double first = updates * batch * 2 * 28 * 28 * 9 * static_cast<double>(repaired.get(convnet::kChannels));
    more += forward.seconds * first / forward.flops;
  }
  return more;
}

/// Most bytes of an epoch: the largest of four moments.
inline int64_t epoch_peak(const Planted& planted, const Counted& repaired) {
  const bool cpu = repaired.device.is_cpu();
  const int64_t updates = repaired.get(kUpdates), validated = repaired.get(kValidated);
  const int64_t batch = repaired.get(convnet::kBatch), image = 4 * 28 * 28;
  const Region& forward = repaired.region("forward");
  const int64_t graph = forward.largest_retained_bytes;  // what a forward pass keeps for backward
  const int64_t made = batch * (image + 8);
  const int64_t update = graph + made + (planted.d ? batch * image : 0);   // its images, their gradient, labels
  const int64_t first = image * batch * repaired.get(convnet::kChannels);  // output of the first convolution
  const int64_t earlier = planted.e ? (updates - 1) * update : 0;          // at the last update

  // The batch is made: the whole set as floats, on the host, the order, and the batch.
  const int64_t set = planted.a && cpu ? image * repaired.get(kImages) : 0;
  const int64_t making = repaired.resting_bytes + earlier + set + made;
  // The backward of the second convolution, where else of the graph only the first one's output is left.
  const int64_t training = repaired.peak_bytes + earlier + (planted.e ? graph - first : 0);
  // Right answers are counted.
  const int64_t counting =
      repaired.resting_bytes + earlier + (planted.e ? update : made) + (planted.b ? forward.largest_peak_bytes : 0);
  // The last held-out batch.
  const int64_t validating =
      repaired.resting_bytes + earlier + (planted.e ? update : 0) +
      (planted.f ? validated * image * batch + (validated - 1) * graph + forward.largest_peak_bytes
                 : repaired.region("validation").largest_peak_bytes);
  return std::max({making, training, counting, validating});
}

/// A and C need what an operator costs on a CPU. On a GPU a read waits for all that is queued, and no count of the
/// repaired program tells how long: C gets no predicted speed there.
inline std::function<Prediction(const Counted&)> predicted(const Planted& planted) {
  return [planted](const Counted& repaired) -> Prediction {
    const double whole = repaired.whole.seconds;
    return {.speed_ratio = whole / (whole + added_seconds(planted, repaired)),
            .peak_bytes = epoch_peak(planted, repaired)};
  };
}

}  // namespace tenfold::inline lesson_05
