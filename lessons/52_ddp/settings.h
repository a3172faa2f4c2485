#pragma once
// The settings that lesson 52 has besides the GPT's: its variants and their predictions read them.

#include <algorithm>
#include <cstdint>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "gradient_buckets.h"

namespace tenfold {

inline constexpr Setting<int64_t> kMicroBatches{"micro_batches", 1, "micro-batches of a rank's share of the batch"};
/// Small models need small buckets, or there would be only one.
inline constexpr Setting<int64_t> kBucketKib{"bucket_kib", {256, 25 << 10, 25 << 10}, "size of a gradient bucket, KiB"};

/// Throws c10::ValueError unless every rank's share of the batch divides into them.
inline int64_t micro_batches_of(const Trial& trial) {
  const int64_t micro_batches = trial.get(kMicroBatches);
  const int64_t batch = trial.get(gpt::kBatch);
  TORCH_CHECK_VALUE(micro_batches > 0 && batch % (trial.world_size * micro_batches) == 0, "batch=", batch,
                    " is not divisible by ranks=", trial.world_size, " times micro_batches=", micro_batches);
  return micro_batches;
}

/// From a Trial or a Counted. The first bucket has at most 1 MiB, so that communication begins soon after backward().
template <class Source>
DdpOptions bucket_sizes(const Source& source) {
  const int64_t bytes = source.get(kBucketKib) << 10;
  return {.first_bucket_bytes = std::min<int64_t>(bytes, 1 << 20), .bucket_bytes = bytes};
}

}  // namespace tenfold
