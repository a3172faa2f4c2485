#pragma once
// What gradient accumulation should do to a training step.

#include <algorithm>

#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "common/models/gpt_memory.h"
#include "common/models/precision.h"
#include "epoch.h"

namespace tenfold::inline lesson_30 {

/// Bytes of the 16-bit copies that a forward pass under autocast makes of the weights and biases of all linear layers,
/// and that its graph keeps; 0 in 32 bits.
inline int64_t weight_copies_bytes(const Counted& full_batch) {
  if (full_batch.get(kPrecision) != "bfloat16") return 0;
  const GptOptions options = gpt_options(full_batch);
  return 2 * (options.layers * (12 * options.width + 9) + options.vocabulary()) * options.width;
}

/// Peak: gradients are alive during every forward pass but the first, so they count in full, like parameters and
/// optimizer state. Of what forward and backward hold besides, one micro-batch's share remains, and all 16-bit copies
/// of weights; or, at the end of a further micro-batch, the new gradient of the embedding, before it is added to the
/// sum.
///
/// Speed: each further micro-batch dispatches every operator again, reads the parameters twice (forward and backward),
/// writes gradients of its own, reads them and the sum so far, and writes the new sum. In 16 bits it copies the weights
/// besides, 4 bytes read and 2 written; the copies are read in half the bytes, but gradients are written twice, in 16
/// bits and in 32. An epoch has fewer of these further micro-batches than micro-batches: by one for each of its
/// updates.
inline Prediction predict_accumulate(const Counted& full_batch) {
  const int64_t micro_batches = full_batch.get(kMicroBatches);
  const int64_t copies = weight_copies_bytes(full_batch);
  const auto activations = static_cast<double>(full_batch.peak_bytes - full_batch.state_bytes() - copies);
  Prediction prediction;
  const GptOptions options = gpt_options(full_batch);
  const int64_t embedding = 4 * options.vocabulary() * options.width;
  prediction.peak_bytes =
      full_batch.resting_bytes +
      std::max(embedding, copies + static_cast<int64_t>(activations / static_cast<double>(micro_batches)));
  const int64_t epoch = micro_batches_in_epoch(full_batch);
  const int64_t updates = (epoch + micro_batches - 1) / micro_batches;
  const double dispatch = static_cast<double>(full_batch.whole.operators) / static_cast<double>(updates) *
                          full_batch.ceiling("cpu_new_tensor_op_seconds");
  const auto bytes = static_cast<double>(2 * full_batch.parameter_bytes + 4 * full_batch.gradient_bytes + 3 * copies);
  const double added = dispatch + bytes / full_batch.ceiling("cpu_copy_bytes_per_s");
  prediction.speed_ratio = speed_with(full_batch, static_cast<double>(epoch - updates) * added);
  return prediction;
}

}  // namespace tenfold::inline lesson_30
