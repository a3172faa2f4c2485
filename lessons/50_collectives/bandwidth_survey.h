#pragma once
// How fast an all-reduce is, in the terms of nccl-tests (doc/PERFORMANCE.md), and what two sizes of a message between
// two ranks predict of it. On the lesson's own ranks: Gloo between processes on a CPU, NCCL between GPUs.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/text.h"
#include "common/harness/lesson.h"
#include "common/measure/clock.h"
#include "common/measure/rank_counts.h"
#include "common/measure/rank_share.h"
#include "common/result/judge.h"
#include "common/result/statistics.h"
#include "flat_training.h"
#include "message_costs.h"

namespace tenfold::inline lesson_50 {

/// Seconds of one call on `bytes`: the median of five blocks, each with the same number of calls on every rank.
inline double seconds_of_call(torch::Device device, int64_t bytes, const std::function<void()>& call) {
  constexpr int64_t kBytesOfBlock = 8 << 20;
  const int64_t calls = std::clamp<int64_t>(kBytesOfBlock / bytes, 2, 50);
  for (int warm = 0; warm < 3; ++warm) call();
  std::vector<double> blocks(5);
  for (double& seconds : blocks) {
    seconds = time_block(device, [&] {
      for (int64_t i = 0; i < calls; ++i) call();
    });
    seconds /= static_cast<double>(calls);
  }
  return median(blocks);
}

/// What is sent: zeros, so that a sum that is summed again stays finite.
inline torch::Tensor message_of(const Trial& trial, int64_t bytes) {
  return torch::zeros({bytes / 4}, torch::device(trial.device));
}

/// Seconds of one message from rank 0 to rank 1: half of a ball's way there and back. Other ranks wait.
inline double seconds_of_message(const Trial& trial, int64_t bytes) {
  const torch::Tensor ball = message_of(trial, bytes);
  std::vector<torch::Tensor> balls{ball};
  const auto pass = [&](int from, int to) {
    if (trial.rank == from) trial.group->send(balls, to, /*tag=*/0)->wait();
    if (trial.rank == to) trial.group->recv(balls, from, /*tag=*/0)->wait();
  };
  return seconds_of_call(trial.device, bytes, [&] { pass(0, 1), pass(1, 0); }) / 2;
}

inline constexpr int64_t kSmallest = 4 << 10, kLargest = 16 << 20;

/// Latency and time of a byte from two points: a message of the smallest size and one of the largest. Measured once.
/// Skips ranks that take turns on too few cores.
inline const LinkModel& measured_link(const Trial& trial) {
  needs_two_ranks(trial);
  const int64_t cores = std::thread::hardware_concurrency();
  if (trial.device.is_cpu() && ranks_share_cores(trial.world_size, cores))
    trial.skip(std::to_string(trial.world_size) + " ranks take turns on " + std::to_string(cores) + " cores");
  return trial.shared<LinkModel>("link of lesson 50", [&] {
    const double small = seconds_of_message(trial, kSmallest), large = seconds_of_message(trial, kLargest);
    const double seconds_per_byte = (large - small) / static_cast<double>(kLargest - kSmallest);
    return LinkModel{.latency = std::max(0.0, small - static_cast<double>(kSmallest) * seconds_per_byte),
                     .seconds_per_byte = seconds_per_byte,
                     .full_duplex = trial.device.is_cuda()};
  });
}

/// Latency, bandwidth, and from which size on a ring should be faster than a tree.
inline void note_link(const Trial& trial) {
  const LinkModel& link = measured_link(trial);
  trial.note("latency", link.latency, "s");
  trial.note("bandwidth", 1e-9 / link.seconds_per_byte, "GB/s");
  for (const int ranks : {2, 4, 8}) {
    trial.note("ring pays from, " + ranks_text(ranks), ring_pays_from(ranks, link), "bytes");
  }
}

/// c10d's all-reduce of `bytes`, our ring's, and what the link's two numbers predict of a ring.
inline void note_bandwidth(const Trial& trial, int64_t bytes) {
  const LinkModel& link = measured_link(trial);
  const torch::Tensor tensor = message_of(trial, bytes);
  const double seconds = seconds_of_call(trial.device, bytes, [&] { c10d_all_reduce(tensor, *trial.group); });
  const double own = seconds_of_call(trial.device, bytes, [&] { ring_all_reduce(tensor, *trial.group); });
  const double ranks = trial.world_size, algbw = static_cast<double>(bytes) / seconds;
  const double predicted = steps_of(Algorithm::ring, trial.world_size, static_cast<double>(bytes)).seconds(link);
  trial.note("time", seconds, "s");
  trial.note("algbw", algbw * 1e-9, "GB/s");
  trial.note("busbw", algbw * 2 * (ranks - 1) / ranks * 1e-9, "GB/s");
  trial.note("time by the model", predicted, "s");
  trial.note("error of the model", 100 * (predicted / seconds - 1), "%");
  trial.note("time of our ring", own, "s");
  trial.note("error of the model for our ring", 100 * (predicted / own - 1), "%");
}

/// The link first, then every fourth power of two from the smallest size to the largest.
inline std::vector<Look> bandwidth_looks() {
  std::vector<Look> looks{{"ping-pong", note_link}};
  for (int64_t bytes = kSmallest; bytes <= kLargest; bytes *= 4)
    looks.push_back(
        {human_bytes(static_cast<double>(bytes)), [bytes](const Trial& trial) { note_bandwidth(trial, bytes); }});
  return looks;
}

}  // namespace tenfold::inline lesson_50
