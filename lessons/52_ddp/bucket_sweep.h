#pragma once
// What a bucket's size does to an exchange: few large all-reduces have little latency and little to overlap with. Two
// ranks, which are threads, train the GPT with buckets of one size; what their exchange takes is predicted from two
// measured all-reduces, the smallest one and that of all gradients.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/seconds_since.h"
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/ranks/rank_threads.h"
#include "common/result/statistics.h"
#include "ddp.h"
#include "settings.h"

namespace tenfold::inline lesson_52 {

/// Of each all-reduce, in the order in which they start.
inline std::vector<int64_t> bytes_of_buckets(const std::vector<torch::Tensor>& gradients, const DdpOptions& sizes) {
  std::vector<int64_t> bytes;
  for (const auto& members : assign_buckets(gradients, sizes)) {
    bytes.push_back(0);
    for (const size_t i : members) bytes.back() += static_cast<int64_t>(gradients[i].nbytes());
  }
  return bytes;
}

/// What an all-reduce takes: its latency, and its payload's bytes at a rate.
struct AllReduceTime {
  double latency_s = 0, bytes_per_s = 0;
};

/// Seconds from backward()'s end until the last bucket has come, where gradients come evenly over `backward_s` and
/// all-reduces run one after another: the part of an exchange that is exposed. With a backward_s of 0 it is all of it,
/// latency x buckets + bytes / rate.
inline double exposed_seconds(const std::vector<int64_t>& bucket_bytes, const AllReduceTime& time, double backward_s) {
  double all = 0, ready = 0, end = 0;
  for (const int64_t bytes : bucket_bytes) all += static_cast<double>(bytes);
  for (const int64_t bytes : bucket_bytes) {
    ready += static_cast<double>(bytes);
    end = std::max(end, backward_s * ready / all) + time.latency_s + static_cast<double>(bytes) / time.bytes_per_s;
  }
  return end - backward_s;
}

/// The median of some runs' seconds.
inline double median_seconds(int runs, const std::function<double()>& seconds_of_run) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) seconds.push_back(seconds_of_run());
  return median(std::move(seconds));
}

/// All-reduces of so many bytes each, all of them started and then waited for.
inline double all_reduce_seconds(const std::vector<int64_t>& bytes, int runs, c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> buffers;
  for (const int64_t each : bytes) buffers.push_back(torch::zeros({std::max<int64_t>(1, each / 4)}));
  return median_seconds(runs, [&] {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    thread_barrier(group);
    const auto begin = std::chrono::steady_clock::now();
    for (const torch::Tensor& buffer : buffers) works.push_back(start_all_reduce(buffer, group));
    for (const auto& work : works) work->wait();
    return seconds_since(begin);
  });
}

/// Notes an exchange with buckets of `kKib`, alone and next to backward(), predicted and measured on rank 0.
template <int kKib>
void note_bucket_size(const Trial& trial) {
  constexpr int kRanks = 2, kSteps = 3, kMessages = 5, kProbes = 21;
  const DdpOptions sizes = buckets_of(int64_t{kKib} << 10);
  on_rank_threads(kRanks, std::chrono::seconds(60), [&](int rank, const auto& group) {
    GptTraining training(trial);
    const auto bytes = bytes_of_buckets(training.model->parameters(), sizes);
    int64_t payload = 0;
    for (const int64_t each : bytes) payload += each;
    AllReduceTime time;
    time.latency_s = all_reduce_seconds({4}, kProbes, *group);
    const double whole = all_reduce_seconds({payload}, kProbes, *group);
    time.bytes_per_s = static_cast<double>(payload) / std::max(1e-9, whole - time.latency_s);
    const double alone = all_reduce_seconds(bytes, kMessages, *group);

    DistributedDataParallel ddp(*training.model, group, sizes);
    double backward = 0;
    const double exposed = median_seconds(kSteps, [&] {
      auto [ids, targets] = training.next_batch();
      training.optimizer->zero_grad();
      const torch::Tensor loss = training.model->loss(training.model->hidden(ids), targets);
      thread_barrier(*group);
      const auto begin = std::chrono::steady_clock::now();
      loss.backward();
      backward += seconds_since(begin) / kSteps;
      const auto ended = std::chrono::steady_clock::now();
      ddp.finish();
      return seconds_since(ended);
    });
    if (rank != 0) return;
    trial.note("all-reduces", static_cast<double>(bytes.size()), "");
    trial.note("largest bucket", static_cast<double>(std::ranges::max(bytes)), "bytes");
    trial.note("exchange alone, predicted", 1e3 * exposed_seconds(bytes, time, 0), "ms");
    trial.note("exchange alone", 1e3 * alone, "ms");
    trial.note("backward", 1e3 * backward, "ms");
    trial.note("exposed, predicted", 1e3 * exposed_seconds(bytes, time, backward), "ms");
    trial.note("exposed", 1e3 * exposed, "ms");
  });
}

}  // namespace tenfold::inline lesson_52
