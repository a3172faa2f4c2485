#pragma once
// What the baseline needs at most. No speed is predicted: how much of a step is elementwise says what fusing can save,
// and the notes count that.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "served_gpt.h"

namespace tenfold::inline lesson_24 {

/// Of a GPT's forward pass without a graph: a block's variables are at most 16 times its input, the loss has the logits
/// three times.
inline int64_t compile_most_bytes(const Trial& trial) {
  if (!trial.get(kForwardOnly)) return trial.workload.most_bytes(trial);
  const GptOptions options = gpt_options(trial);
  const int64_t rows = options.batch * options.length, kept_outputs = 4 * 64 * options.vocabulary();
  const int64_t attention = 4 * rows * options.heads, ids = 2 * 8 * rows;
  const int64_t block = 16 * 4 * rows * options.width, loss = 3 * 4 * rows * options.vocabulary();
  return parameter_bytes(options) + ids + attention + kept_outputs + std::max(block, loss);
}

}  // namespace tenfold::inline lesson_24
