#pragma once
// Ranks that are threads of one process, over a real Gloo group: for tests, and for trying a collective in one program.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <functional>

namespace tenfold {

/// Runs `work(rank, group)` on `world_size` threads that form one group, and waits for all of them. A collective that
/// waits longer than `timeout` throws. Throws what the lowest rank that failed has thrown.
void on_rank_threads(int world_size, std::chrono::milliseconds timeout,
                     const std::function<void(int, const c10::intrusive_ptr<c10d::ProcessGroup>&)>& work);

/// Waits until all of them have come. Their group's own barrier() is not for threads: it keeps a tensor in a static
/// variable (2.11), which two that call it at once free twice. Its backend's is.
void thread_barrier(c10d::ProcessGroup& group);

}  // namespace tenfold
