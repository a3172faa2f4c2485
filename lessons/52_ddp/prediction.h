#pragma once
// What data parallel training should do to one process's step of the GPT.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "settings.h"

namespace tenfold::inline lesson_52 {

/// How the ranks exchange their gradients after a backward pass: by all-reduces of each gradient, of buckets that are
/// made for it, or of buckets that are always there and are sent while backward() fills the next; these may be where
/// the gradients live, or have 16 bits. One rank has nobody to exchange them with.
enum class Exchange { nothing, each_gradient, in_buckets, overlapped, views, bf16 };

inline bool is_overlapped(Exchange exchange) { return exchange >= Exchange::overlapped; }

inline int64_t sent_bytes_of(const Counted& one_process, Exchange exchange) {
  return exchange == Exchange::bf16 ? one_process.gradient_bytes / 2 : one_process.gradient_bytes;
}

/// A GPT's gradients in the order of its parameters: shapes without memory, which assign_buckets() takes as well.
inline std::vector<torch::Tensor> shapes_of_gradients(const GptOptions& options) {
  const int64_t width = options.width;
  std::vector<torch::Tensor> shapes;
  const auto add = [&](int64_t rows, int64_t columns) {
    shapes.push_back(torch::empty({rows, columns}, torch::device(torch::kMeta)));
  };
  add(options.vocabulary(), width);
  add(options.length, width);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    for (const auto& [out, in] : {std::pair(width, int64_t{0}),
                                  {3 * width, width},
                                  {width, width},
                                  {width, int64_t{0}},
                                  {4 * width, width},
                                  {width, 4 * width}}) {
      add(out, std::max<int64_t>(1, in));  // a norm's weight has one number for each feature
      add(out, 1);                         // bias
    }
  }
  for (int i = 0; i < 2; ++i) add(width, 1);  // the last norm
  add(options.vocabulary(), width);
  return shapes;
}

/// All-reduces of one exchange.
inline int64_t all_reduces_of(const Counted& one_process, Exchange exchange) {
  if (exchange == Exchange::nothing) return 0;
  const std::vector<torch::Tensor> gradients = shapes_of_gradients(gpt_options(one_process));
  if (exchange == Exchange::each_gradient) return static_cast<int64_t>(gradients.size());
  return static_cast<int64_t>(assign_buckets(gradients, bucket_sizes(one_process)).size());
}

/// In weak scaling one process computes a batch for each rank.
inline bool several_batches(const Counted& one_process) { return weak_scaling(one_process) && one_process.ranks > 1; }

/// Parameters and optimizer state are whole on every rank; what forward and backward hold besides them is divided by
/// ranks and micro-batches. In weak scaling it is not divided by ranks: there one process computes the same batches one
/// after another, with gradients alive beside them. Gradients live during every forward pass but an update's first, and
/// buckets take their size again: always when the exchange is overlapped, else one bucket at a time.
inline int64_t peak_bytes_of(const Counted& one_process, Exchange exchange, int64_t micro_batches) {
  const int64_t gradients = one_process.gradient_bytes;
  const int64_t activations =
      (several_batches(one_process) ? one_process.peak_bytes - one_process.resting_bytes
                                    : (one_process.peak_bytes - one_process.state_bytes()) / one_process.ranks) /
      micro_batches;
  const int64_t besides = exchange == Exchange::views ? 0 : gradients;  // where the buckets are not the gradients
  const int64_t at_forward = activations + (micro_batches > 1 ? besides : 0);
  int64_t at_exchange = besides;
  if (exchange == Exchange::in_buckets) at_exchange += std::min(gradients, bucket_sizes(one_process).bucket_bytes);
  const int64_t buckets = is_overlapped(exchange) ? sent_bytes_of(one_process, exchange) : 0;
  return one_process.state_bytes() + buckets + std::max(at_forward, at_exchange);
}

/// Seconds of a rank's step with so many exchanges. Dispatching a pass's operators and the optimizer's step stay whole,
/// the rest is divided; in weak scaling one process makes a pass for each rank. An all-reduce takes the probed latency
/// and its bytes' time (2 (N - 1) / N of them, as a ring sends them), a bucket's bytes are also copied in and out.
/// Overlapped with backward(), two thirds of computing, only the bytes and each exchange's last latency are waited for.
inline double step_seconds_of(const Counted& one_process, Exchange exchange, int64_t micro_batches, int64_t exchanges) {
  const double ranks = one_process.ranks;
  const double latency = (ranks - 1) * one_process.ceiling("cpu_all_reduce_seconds");
  const double dispatch = static_cast<double>(one_process.whole.operators) * one_process.ceiling("cpu_op_seconds");
  const double whole = one_process.share("optimizer") * one_process.step_seconds;
  const double divided = std::max(0.0, one_process.step_seconds - whole - dispatch) / ranks;
  const double passes = several_batches(one_process) ? ranks : 1;
  const double compute = divided + dispatch / passes * static_cast<double>(micro_batches);

  if (exchange == Exchange::nothing) return whole + compute;
  const auto least_waits = static_cast<double>(exchanges);
  double waits = least_waits * static_cast<double>(all_reduces_of(one_process, exchange));
  if (is_overlapped(exchange)) waits = std::max(least_waits, waits - compute * 2 / 3 / latency);

  double seconds_per_byte = 2 * (ranks - 1) / ranks / one_process.ceiling("cpu_all_reduce_bytes_per_s");
  const double copies = exchange == Exchange::each_gradient ? 0 : exchange == Exchange::views ? 1 : 2;
  seconds_per_byte += copies / one_process.ceiling("cpu_copy_bytes_per_s");
  const auto bytes = static_cast<double>(exchanges * sent_bytes_of(one_process, exchange));
  return whole + compute + waits * latency + bytes * seconds_per_byte;
}

inline Prediction predict_exchange(const Counted& one_process, Exchange exchange, int64_t micro_batches = 1,
                                   int64_t exchanges = 1) {
  if (one_process.ranks == 1) exchange = Exchange::nothing;
  Prediction prediction{.peak_bytes = peak_bytes_of(one_process, exchange, micro_batches)};
  if (exchange != Exchange::nothing) prediction.sent_bytes = exchanges * sent_bytes_of(one_process, exchange);
  prediction.speed_ratio = one_process.step_seconds / step_seconds_of(one_process, exchange, micro_batches, exchanges);
  return prediction;
}

inline Prediction predict_naive(const Counted& one_process) {
  return predict_exchange(one_process, Exchange::each_gradient);
}

inline Prediction predict_bucketed(const Counted& one_process) {
  return predict_exchange(one_process, Exchange::in_buckets);
}

inline Prediction predict_reducer(const Counted& one_process) {
  return predict_exchange(one_process, Exchange::overlapped);
}

/// Gradients are exchanged after every micro-batch.
inline Prediction predict_each_time(const Counted& one_process, Exchange exchange) {
  const int64_t micro_batches = one_process.get(kMicroBatches);
  return predict_exchange(one_process, exchange, micro_batches, /*exchanges=*/micro_batches);
}

inline Prediction predict_overlapped(const Counted& one_process) {
  return predict_each_time(one_process, Exchange::overlapped);
}

inline Prediction predict_views(const Counted& one_process) { return predict_each_time(one_process, Exchange::views); }

inline Prediction predict_bf16(const Counted& one_process) { return predict_each_time(one_process, Exchange::bf16); }

inline Prediction predict_no_sync(const Counted& one_process) {
  return predict_exchange(one_process, Exchange::overlapped, one_process.get(kMicroBatches), /*exchanges=*/1);
}

}  // namespace tenfold::inline lesson_52
