#pragma once
// Counting on ranks that are threads of one process: more of them than a machine has cores for, so that nothing is
// timed, but bytes that are sent and bytes that are alive are those of real ranks.

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/measure/memory.h"
#include "common/ranks/counted_backend.h"
#include "common/ranks/rank_threads.h"

namespace tenfold {

/// "1 rank", "8 ranks": what a survey calls a number that it has counted on so many.
inline std::string ranks_text(int64_t ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

/// Runs `work(rank, group, asked)` on so many threads, as on_rank_threads() does, with a time-out of a minute. What a
/// rank asks of its group is counted in its own `asked`.
inline void on_counted_ranks(
    int ranks, const std::function<void(int, const c10::intrusive_ptr<c10d::ProcessGroup>&, RequestCounter&)>& work) {
  on_rank_threads(ranks, std::chrono::minutes(1), [&](int rank, const auto& plain) {
    const auto asked = std::make_shared<RequestCounter>();
    work(rank, counted_group(plain, asked), *asked);
  });
}

/// Bytes that a rank sends for what it asked of its collectives, the mean over the ranks, rounded down: of an
/// all-reduce 2 (N - 1) / N of the payload, where it goes around a ring; of an all-gather, a reduce-scatter or an
/// all-to-all (N - 1) / N, since a part stays; a send whole. Gloo cuts a payload between two elements, so that where N
/// does not divide it the ranks do not all send equally much; together they send 2 (N - 1) times an all-reduce's
/// payload, to the byte. Hence nothing is rounded before the end. Throws std::invalid_argument for what only some ranks
/// send, such as a broadcast. Source: ring() in gloo/allreduce.cc, https://github.com/facebookincubator/gloo at
/// cc44198.
inline int64_t sent_bytes_of(const std::map<std::string, Requests>& asked, int64_t ranks) {
  int64_t shared = 0, whole = 0;
  for (const auto& [collective, requests] : asked) {
    if (requests.bytes == 0) continue;  // a barrier
    if (collective == "all_reduce") {
      shared += 2 * requests.bytes;
    } else if (collective == "all_gather" || collective == "reduce_scatter" || collective == "all_to_all") {
      shared += requests.bytes;
    } else if (collective == "send") {
      whole += requests.bytes;
    } else {
      throw std::invalid_argument("what a rank sends of " + collective + " is not known");
    }
  }
  return whole + (ranks - 1) * shared / ranks;
}

/// Live bytes of CPU tensors when they have not become fewer for 40 ms: Gloo's thread frees its copies a moment after
/// the collective that needed them.
inline int64_t settled_live_bytes() {
  int64_t least = live_bytes(torch::kCPU);
  for (int unchanged = 0; unchanged < 20; ++unchanged) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const int64_t now = live_bytes(torch::kCPU);
    if (now < least) unchanged = 0;
    least = std::min(least, now);
  }
  return least;
}

/// Live bytes of ranks that are threads, while none of them computes.
class AliveOnRanks {
 public:
  /// Throws std::runtime_error on the ranks that have waited for the others for so long.
  explicit AliveOnRanks(int ranks, std::chrono::milliseconds patience = std::chrono::minutes(1))
      : ranks_(ranks), patience_(patience), turns_(static_cast<size_t>(ranks)) {}

  /// Of all ranks together, settled. Every rank must ask, equally often; rank 0 reads when all have come. The ranks do
  /// not meet in a barrier: Gloo's keeps the work before it, with its tensors, for as long as it lasts.
  int64_t bytes(int rank) {
    const int turn = turns_[static_cast<size_t>(rank)]++;
    if (rank == 0) {
      wait_until([&] { return arrived_ >= (turn + 1) * (ranks_ - 1); });
      bytes_ = settled_live_bytes();
      ++read_;
    } else {
      ++arrived_;
      wait_until([&] { return read_ > turn; });
    }
    return bytes_;
  }

 private:
  void wait_until(const std::function<bool()>& ready) const {
    const auto end = std::chrono::steady_clock::now() + patience_;
    while (!ready()) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("a rank did not come to be counted");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  int ranks_;
  std::chrono::milliseconds patience_;
  std::vector<int> turns_;  // each rank's own
  std::atomic<int> arrived_ = 0, read_ = 0;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace tenfold
