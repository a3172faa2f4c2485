#pragma once
// Peak and bytes sent of training that is saved, from a step of training that is not.

#include <cstdint>

#include "common/harness/lesson.h"
#include "settings.h"

namespace tenfold::inline lesson_57 {

/// Gradients are averaged in every update, and nothing else is sent.
inline int64_t averaged_bytes(const Counted& plain) {
  return plain.ranks == 1 ? 0 : plain.get(kEvery) * plain.gradient_bytes;
}

inline Prediction with_sent(Prediction prediction, const Counted& plain, int64_t besides = 0) {
  if (plain.ranks > 1) prediction.sent_bytes = averaged_bytes(plain) + besides;
  return prediction;
}

/// The file is written from where the tensors are, or from the host's copy of one tensor after the other: no bytes of
/// the device.
inline Prediction predict_checkpoint(const Counted& plain) {
  return with_sent({.peak_bytes = plain.peak_bytes}, plain);
}

/// On a CPU the copy of parameters and momentum stays next to them; of a GPU's tensors it is in the host's memory.
inline Prediction predict_background(const Counted& plain) {
  const int64_t copies = plain.device.is_cpu() ? 2 * plain.parameter_bytes : 0;
  return with_sent({.peak_bytes = plain.peak_bytes + copies}, plain);
}

/// One number of 8 bytes from each rank. Hashing a parameter takes three whole numbers of 64 bits for each of its
/// values, after the step, when its activations are gone.
inline Prediction predict_same(const Counted& plain) {
  return with_sent({.peak_bytes = plain.peak_bytes}, plain, /*besides=*/8 * plain.ranks);
}

}  // namespace tenfold::inline lesson_57
