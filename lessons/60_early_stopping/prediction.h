#pragma once
// What checks on a validation loss should do to a training step.

#include "common/harness/lesson.h"
#include "images.h"

namespace tenfold::inline lesson_60 {

/// Peak: a copy of the weights stays. The images of a check are a view of the file, and fewer are alive at a time than
/// in an update.
/// Speed: a check is a forward pass over `validation` images; `every` updates have passed over `every * batch`.
inline Prediction predict_checks(const Counted& none) {
  const auto images = static_cast<double>(none.get(kEvery) * none.get(convnet::kBatch));
  const double forward = none.share("forward") + none.share("data");
  const double more = forward * static_cast<double>(none.get(kValidation)) / images;
  return {.speed_ratio = 1 / (1 + more), .peak_bytes = none.peak_bytes + none.parameter_bytes};
}

}  // namespace tenfold::inline lesson_60
