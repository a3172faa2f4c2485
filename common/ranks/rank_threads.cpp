#include "common/ranks/rank_threads.h"

#include "common/ranks/process_group.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <cstdlib>
#include <exception>
#include <latch>
#include <thread>
#include <vector>

namespace tenfold {

void on_rank_threads(int world_size, std::chrono::milliseconds timeout,
                     const std::function<void(int, const c10::intrusive_ptr<c10d::ProcessGroup>&)>& work) {
  // c10d's flight recorder is one per process and takes a group's first entry without its lock (2.11): two groups that
  // start together corrupt it. It reads its size once, when the first group is made.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> failed(static_cast<size_t>(world_size));
  // A rank is connected before the others are to it. One that ends at once would close what they still open
  // ("connectFullMesh failed ... Connection closed by peer"), so all begin when all are connected, or have failed.
  std::latch connected(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        c10::intrusive_ptr<c10d::ProcessGroup> group;
        try {
          group = gloo_group(store, rank, world_size, timeout);
        } catch (...) {
          connected.count_down();
          throw;
        }
        connected.arrive_and_wait();
        work(rank, group);
      } catch (...) {
        failed[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failed) {
    if (failure) std::rethrow_exception(failure);
  }
}

void thread_barrier(c10d::ProcessGroup& group) { group.getBackend(c10::kCPU)->barrier()->wait(); }

}  // namespace tenfold
