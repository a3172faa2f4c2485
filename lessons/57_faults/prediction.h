#pragma once
// Peak and bytes sent of training that is saved, from a step of training that is not.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "same_on_ranks.h"
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

/// One number of 8 bytes from each rank. Hashing comes after the step, when its activations are gone, and takes three
/// whole numbers of 64 bits for each value of a parameter, or of a part of it.
inline Prediction predict_same(const Counted& plain) {
  const GptOptions options = gpt_options(plain);
  const int64_t largest = std::min(kHashedAtATime, options.width * std::max(options.vocabulary(), 4 * options.width));
  return with_sent({.peak_bytes = std::max(plain.peak_bytes, plain.resting_bytes + 3 * 8 * largest)}, plain,
                   /*besides=*/8 * plain.ranks);
}

}  // namespace tenfold::inline lesson_57
