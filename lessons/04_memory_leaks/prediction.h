#pragma once
// What is kept of every update should add to an epoch's peak. The peak is in the last update: all the others have left
// theirs by then.

#include "common/harness/lesson.h"
#include "loop.h"

namespace tenfold::inline lesson_04 {

/// Bytes of a healthy update's parts, as they were counted.
struct UpdateBytes {
  explicit UpdateBytes(const Counted& healthy)
      : earlier(healthy.get(kUpdates) - 1),
        batch(healthy.region("data").largest_retained_bytes),
        labels(8 * healthy.get(convnet::kBatch)),
        graph(healthy.region("forward").largest_retained_bytes),
        first_output(4 * healthy.get(convnet::kBatch) * healthy.get(convnet::kChannels) * 28 * 28) {}

  int64_t earlier;  ///< updates before the last
  int64_t batch;    ///< images and labels
  int64_t labels;
  int64_t graph;         ///< what the forward pass keeps for backward, besides the batch
  int64_t first_output;  ///< of the first convolution, after ReLU
};

/// backward() has freed the graph: what a loss still holds are its own 4 bytes, in a block of 64.
inline Prediction keeps_no_tensors(const Counted& healthy) { return {.peak_bytes = healthy.peak_bytes}; }

/// Every graph of a validation that no backward() follows; its images are the same each time.
inline Prediction keeps_validation_graphs(const Counted& healthy) {
  const UpdateBytes bytes(healthy);
  return {.peak_bytes = healthy.peak_bytes + bytes.earlier * bytes.graph};
}

/// Every update's graph with its batch. The last one's, too: the peak is in the backward of the second convolution,
/// where else only the first one's output is left of the graph.
inline Prediction keeps_training_graphs(const Counted& healthy) {
  const UpdateBytes bytes(healthy);
  return {.peak_bytes =
              healthy.peak_bytes + bytes.earlier * (bytes.graph + bytes.batch) + bytes.graph - bytes.first_output};
}

inline Prediction keeps_batches(const Counted& healthy) {
  const UpdateBytes bytes(healthy);
  return {.peak_bytes = healthy.peak_bytes + bytes.earlier * bytes.batch};
}

inline Prediction keeps_images(const Counted& healthy) {
  const UpdateBytes bytes(healthy);
  return {.peak_bytes = healthy.peak_bytes + bytes.earlier * (bytes.batch - bytes.labels)};
}

}  // namespace tenfold::inline lesson_04
