#pragma once
// Peak and bytes sent of data parallel training by one process with replicas and by a process for each device, from a
// counted step of one device.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "settings.h"

namespace tenfold::inline lesson_51 {

/// Bytes of one device's step with the whole batch.
struct StepBytes {
  explicit StepBytes(const Counted& one_device)
      : state(one_device.state_bytes()),
        parameters(one_device.parameter_bytes),
        activations(one_device.peak_bytes - state) {
    const GptOptions options = gpt_options(one_device);
    const int64_t tokens = options.batch * options.length;
    ids = 8 * tokens;
    first_rows = (options.batch + kDevices - 1) / kDevices;
    batch = options.batch;
    logits = 4 * tokens * options.vocabulary();
    largest = 4 * options.width * std::max(options.vocabulary(), 4 * options.width);
  }

  int64_t state;        ///< parameters and momentum
  int64_t parameters;   ///< also of their gradients
  int64_t activations;  ///< with the logits' gradients: all that a peak at the loss has besides
  int64_t ids, logits;  ///< of the whole batch
  int64_t largest;      ///< parameter
  int64_t first_rows;   ///< of the batch's, that the first of the devices has: the larger half
  int64_t batch;

  int64_t of_first(int64_t bytes) const { return bytes * first_rows / batch; }
};

/// The logits' own part of a peak at the loss: the logarithms, and two gradients.
constexpr int64_t kLogitsAtLoss = 3;

/// Where the loss is computed: on the first device, for the whole batch, or by each replica for its rows.
enum class LossOn { first, each };

/// Of a GPU the first device's peak: its share of the activations, and with the loss there the whole batch's logits; or
/// at the end of backward() all gradients, with one that arrives and the sum that it goes into. A CPU has the replicas'
/// parameters besides, and the activations of all; its one thread of backward() runs one replica after the other, the
/// second next to all gradients of the first.
inline Prediction predict_replicas(const Counted& one_device, LossOn loss) {
  const StepBytes of(one_device);
  const int64_t at_loss = kLogitsAtLoss * of.logits;
  if (one_device.device.is_cpu()) {
    const int64_t copies = (kDevices - 1) * of.parameters;
    const int64_t by_each = of.activations - at_loss + of.logits + of.of_first((kLogitsAtLoss - 1) * of.logits);
    const int64_t first = loss == LossOn::first ? of.activations : by_each;
    return {.peak_bytes =
                of.state + copies + std::max(first, of.parameters + of.activations - of.of_first(of.activations))};
  }
  const int64_t whole = loss == LossOn::first ? at_loss : 0;
  const int64_t own = of.of_first(of.activations - whole) + whole;
  return {.peak_bytes = of.state + std::max(own, of.parameters + 2 * of.largest)};
}

inline Prediction predict_outputs_gathered(const Counted& one_device) {
  return predict_replicas(one_device, LossOn::first);
}
inline Prediction predict_losses_gathered(const Counted& one_device) {
  return predict_replicas(one_device, LossOn::each);
}

/// A rank of DDP: the model states, gradients once more in buckets, its share of the activations.
inline Prediction predict_ddp(const Counted& one_device) {
  if (one_device.ranks == 1) return {};
  const StepBytes of(one_device);
  return {.peak_bytes = of.state + of.parameters + std::max(of.activations / one_device.ranks, of.parameters),
          .sent_bytes = of.parameters};
}

/// Rank 0 as DataParallel's first device, and a bucket next to all gradients. Gloo gathers into memory of its own,
/// which is freed a moment later, and so are the rows that it sent. Parameters out and gradients in, ids out, logits in
/// and their gradients out.
inline Prediction predict_rank_exchange(const Counted& one_device) {
  if (one_device.ranks == 1) return {};
  const StepBytes of(one_device);
  const int64_t at_loss = kLogitsAtLoss * of.logits;
  const int64_t gloo = one_device.device.is_cpu() ? of.logits + of.logits / one_device.ranks : 0;
  const int64_t own = (of.activations - at_loss) / one_device.ranks + at_loss + gloo;
  const int64_t bucket = std::min(of.parameters, bucket_sizes(one_device).bucket_bytes);
  return {.peak_bytes = of.state + std::max(own, of.parameters + bucket),
          .sent_bytes = 2 * of.parameters + of.ids + 2 * of.logits};
}

}  // namespace tenfold::inline lesson_51
