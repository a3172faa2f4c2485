#pragma once
// The settings that lesson 51 has besides the GPT's, and how many devices it is about.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/gradient_buckets.h"

namespace tenfold::inline lesson_51 {

/// Of the cases in which one process has several.
inline constexpr int kDevices = 2;

/// As in lesson 52.
inline constexpr Setting<int64_t> kBucketKib{
    "bucket_kib", {256, 25 << 10, 25 << 10}, "size of the buckets that ranks exchange, KiB"};

/// From a Trial or a Counted.
template <class Source>
DdpOptions bucket_sizes(const Source& source) {
  const int64_t bytes = source.get(kBucketKib) << 10;
  return {.first_bucket_bytes = std::min<int64_t>(bytes, 1 << 20), .bucket_bytes = bytes};
}

/// Skips what needs somebody to send to, and a batch that the ranks cannot share.
inline void needs_ranks_that_divide(const Trial& trial) {
  if (!trial.group) trial.skip("needs two ranks");
  const int64_t batch = trial.get(gpt::kBatch);
  if (batch % trial.world_size != 0)
    trial.skip("batch=" + std::to_string(batch) + " cannot be divided by " + std::to_string(trial.world_size) +
               " ranks");
}

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
inline int64_t most_bytes(const Trial& trial) {
  return gpt_most_bytes(trial) + static_cast<int64_t>(trial.devices.size() - 1) * parameter_bytes(gpt_options(trial));
}

}  // namespace tenfold::inline lesson_51
