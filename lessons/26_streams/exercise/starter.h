#pragma once
// Your answer to exercise 26. Build and check it with: ./tenfold exercise 26
#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "lessons/11_pinned_loading/host_stream.h"

/// A part of a step.
struct Task {
  std::function<void()> work;
  size_t stream;                   ///< that it runs on
  std::vector<size_t> needs = {};  ///< tasks earlier in the list, whose results it reads
};

/// Queues all tasks, each on its stream, in the order of the list; returns at once. A task begins when what it needs is
/// done, and waits for nothing else on other streams. Returns an event for each stream, behind its last task.
inline std::vector<tenfold::HostEvent> run_tasks(std::deque<tenfold::HostStream>& streams,
                                                 const std::vector<Task>& tasks) {
  std::vector<tenfold::HostEvent> ends(streams.size());
  for (const Task& task : tasks) {
    // Hint: which stream has to wait here, and for which event of which other stream?
    streams[task.stream].run(task.work);
  }
  return ends;
}
