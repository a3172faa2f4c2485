#pragma once
// The settings of lesson 51's cases, and how many devices it is about. Buckets are set as in lesson 52.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/settings.h"

namespace tenfold::inline lesson_51 {

/// Of the cases in which one process has several.
inline constexpr int kDevices = 2;

/// A batch of which the first of two devices has one row more.
inline std::vector<Assignment> uneven_batch() {
  return {gpt::kBatch(5), gpt::kLayers(2), gpt::kWidth(32), gpt::kHeads(2), gpt::kLength(32)};
}

/// Many parameters and few tokens: what is sent takes longer than what is computed.
inline std::vector<Assignment> many_parameters() {
  return {gpt::kLayers(4, 12, 12), gpt::kWidth(128, 768, 1536), gpt::kHeads(4, 12, 12), gpt::kLength(8, 64, 64),
          gpt::kBatch(8)};
}

/// In a process with several devices those of a CPU share its memory: the copies come to what one device needs. A GPU
/// holds one of them, so that this states too much there.
inline int64_t devices_most_bytes(const Trial& trial) {
  return gpt_most_bytes(trial) + static_cast<int64_t>(trial.devices.size() - 1) * parameter_bytes(gpt_options(trial));
}

}  // namespace tenfold::inline lesson_51
