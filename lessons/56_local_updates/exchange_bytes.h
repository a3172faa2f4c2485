#pragma once
// What a rank asks of its collectives in an update, and what it then sends, by formula. P parameters of 32 bits, N
// ranks, H inner updates, k values of top-k, matrices (n, m) of rank r in PowerSGD.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/models/gpt.h"
#include "gradient_compression.h"
#include "lessons/33_optimizer_memory/state_bytes.h"

namespace tenfold::inline lesson_56 {

/// Payload of whole collectives, as the harness counts it.
struct AskedBytes {
  int64_t all_reduce = 0, all_gather = 0;
  int64_t all() const { return all_reduce + all_gather; }
  /// What a rank sends of it around a ring: 2 (N - 1) / N of an all-reduce, (N - 1) / N of an all-gather's result.
  double ring_bytes(int64_t ranks) const {
    return static_cast<double>((ranks - 1) * (2 * all_reduce + all_gather)) / static_cast<double>(ranks);
  }
};

/// P, with the gaps that let each parameter begin at an aligned address.
inline int64_t flat_values_of(const Shapes& shapes) {
  int64_t values = 0;
  for (const Shape& shape : shapes) values += aligned_begin(values_of(shape), /*value_bytes=*/4);
  return values;
}
/// 4 P: the gradients.
inline AskedBytes data_parallel_bytes(const Shapes& shapes) { return {.all_reduce = 4 * flat_values_of(shapes)}; }
/// 2 P.
inline AskedBytes bf16_bytes(const Shapes& shapes) { return {.all_reduce = 2 * flat_values_of(shapes)}; }
/// 8 k from each rank: a value and its place.
inline AskedBytes top_k_bytes(const Shapes& shapes, double share, int64_t ranks) {
  return {.all_gather = 8 * ranks * TopK::sent_values(flat_values_of(shapes), share)};
}

/// What PowerSGD makes of the parameters.
struct PowerSgdBytes {
  PowerSgdBytes(const Shapes& shapes, const PowerSgdOptions& options) {
    for (const Shape& shape : shapes) {
      const int64_t rank = PowerSgd::rank_of(shape, options), values = values_of(shape);
      if (rank == 0) {
        whole += 4 * values;
      } else {
        compressed += 4 * values;
        p += 4 * rank * shape[0];
        q += 4 * rank * (values / shape[0]);
      }
    }
  }
  int64_t whole = 0;       ///< sent as they are
  int64_t compressed = 0;  ///< of the matrices before
  int64_t p = 0, q = 0;    ///< what is sent instead
};
/// 4 r (n + m) for each matrix, and the rest as it is.
inline AskedBytes power_sgd_bytes(const Shapes& shapes, const PowerSgdOptions& options) {
  const PowerSgdBytes bytes(shapes, options);
  return {.all_reduce = bytes.whole + bytes.p + bytes.q};
}

}  // namespace tenfold::inline lesson_56
