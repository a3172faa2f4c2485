#pragma once
// Peak and bytes sent of each technique, from a counted round of data parallel training on as many ranks.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "exchange_bytes.h"
#include "lessons/33_optimizer_memory/state_bytes.h"
#include "settings.h"

namespace tenfold::inline lesson_56 {

inline Shapes shapes_of(const Counted& counted) { return gpt_shapes(gpt_options(counted)); }

/// `kept` bytes stay from one round to the next, and `working` are there while gradients are exchanged, when there are
/// no activations. `sent` are those of the round.
inline Prediction with_bytes(const Counted& counted, int64_t kept, int64_t working, int64_t sent) {
  Prediction prediction{.peak_bytes = std::max(counted.peak_bytes, counted.resting_bytes + working) + kept};
  if (counted.ranks > 1) prediction.sent_bytes = sent;
  return prediction;
}

/// The parameters once in a round; nothing is kept.
inline Prediction predict_local_sgd(const Counted& counted) {
  return with_bytes(counted, 0, 0, data_parallel_bytes(shapes_of(counted)).all());
}

/// Where the round began, and the outer momentum.
inline Prediction predict_diloco(const Counted& counted) {
  const int64_t parameters = data_parallel_bytes(shapes_of(counted)).all();
  return with_bytes(counted, 2 * parameters, 0, parameters);
}

/// Gloo makes a copy of what an all-gather gathers, and holds what it has sent a moment longer. NCCL does neither.
inline bool over_gloo(const Counted& counted) { return counted.device.is_cpu() && counted.ranks > 1; }

/// The rounded gradients, which over Gloo are still there while the optimizer works.
inline Prediction predict_bf16(const Counted& counted) {
  const int64_t sent = bf16_bytes(shapes_of(counted)).all();
  const int64_t besides = over_gloo(counted) ? counted.region("optimizer").largest_peak_bytes : 0;
  return with_bytes(counted, 0, sent + besides, counted.get(kInnerUpdates) * sent);
}

/// What was not sent, 4 P. At a time there are: the sizes of all values, 4 P, with the largest, 4 k, and their places,
/// 8 k; the message as its parts are put together, 24 k; the places, the message, and all ranks' messages, 16 k + 8 N
/// k.
inline Prediction predict_top_k_of(const Counted& counted, double share) {
  const Shapes shapes = shapes_of(counted);
  const int64_t parameters = data_parallel_bytes(shapes).all(), k = TopK::sent_values(flat_values_of(shapes), share);
  const int64_t sent = top_k_bytes(shapes, share, counted.ranks).all();
  const int64_t received = counted.ranks > 1 ? sent * (over_gloo(counted) ? 2 : 1) : 0;
  const int64_t working = std::max({parameters + 12 * k, 24 * k, 16 * k + received});
  return with_bytes(counted, parameters, working, counted.get(kInnerUpdates) * sent);
}
inline Prediction predict_top_k(const Counted& counted) { return predict_top_k_of(counted, counted.get(kShare)); }
inline Prediction predict_all_values(const Counted& counted) { return predict_top_k_of(counted, 1); }

/// What was not sent of the matrices, and Q; with a warm start the first Q, too.
inline Prediction predict_power_sgd_by(const Counted& counted, const PowerSgdOptions& options) {
  const PowerSgdBytes bytes(shapes_of(counted), options);
  const int64_t q = (options.warm_start ? 2 : 1) * bytes.q;
  return with_bytes(counted, bytes.compressed + q, std::max(bytes.whole, bytes.p),
                    counted.get(kInnerUpdates) * (bytes.whole + bytes.p + bytes.q));
}
inline Prediction predict_power_sgd(const Counted& counted) {
  return predict_power_sgd_by(counted, power_sgd_options(counted));
}
inline Prediction predict_full_rank(const Counted& counted) { return predict_power_sgd_by(counted, kFullRank); }

}  // namespace tenfold::inline lesson_56
