#pragma once
// The settings that lesson 52 has besides the GPT's: its variants and their predictions read them.

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/measure/rank_share.h"
#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "gradient_buckets.h"

namespace tenfold::inline lesson_52 {

inline constexpr Setting<int64_t> kMicroBatches{"micro_batches", 1, "micro-batches of a rank's share of the batch"};
/// Small models need small buckets, or there would be only one.
inline constexpr Setting<int64_t> kBucketKib{"bucket_kib", {256, 25 << 10, 25 << 10}, "size of a gradient bucket, KiB"};
/// Strong scaling: more ranks do the same work. Weak scaling: each rank does as much as one process did.
inline constexpr Setting<std::string> kScaling{
    "scaling", "strong", "whether the batch is that of all ranks together, or of each", {"strong", "weak"}};

/// From a Trial or a Counted.
template <class Source>
bool weak_scaling(const Source& source) {
  return source.get(kScaling) == "weak";
}

/// Sequences that a rank computes in an update. Skips a batch that the ranks cannot share, or of which a rank has too
/// few for its micro-batches; throws c10::ValueError where the micro-batches do not fit a single process either.
inline int64_t rows_of_rank(const Trial& trial) {
  const int64_t batch = trial.get(gpt::kBatch), micro_batches = trial.get(kMicroBatches);
  const int64_t rows = share_of_rank(trial, gpt::kBatch, weak_scaling(trial) ? 1 : trial.world_size);
  TORCH_CHECK_VALUE(micro_batches > 0 && batch % micro_batches == 0, "batch=", batch,
                    " is not divisible by micro_batches=", micro_batches);
  if (rows % micro_batches != 0)
    trial.skip(std::to_string(rows) +
               " sequences of a rank cannot be divided by micro_batches=" + std::to_string(micro_batches));
  return rows;
}

/// Of all ranks together.
inline int64_t tokens_of_update(const Trial& trial) {
  return rows_of_rank(trial) * trial.world_size * trial.get(gpt::kLength);
}

/// One process computes the ranks' batches one after another where each rank has one, and gradients stay meanwhile.
inline int64_t most_bytes(const Trial& trial) {
  return gpt_most_bytes(trial) + (weak_scaling(trial) ? parameter_bytes(gpt_options(trial)) : 0);
}

/// Buckets of so many bytes. The first one has at most 1 MiB, so that communication begins soon after backward().
inline DdpOptions buckets_of(int64_t bytes) {
  return {.first_bucket_bytes = std::min<int64_t>(bytes, 1 << 20), .bucket_bytes = bytes};
}

/// From a Trial or a Counted.
template <class Source>
DdpOptions bucket_sizes(const Source& source) {
  return buckets_of(source.get(kBucketKib) << 10);
}

}  // namespace tenfold::inline lesson_52
