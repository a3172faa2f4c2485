// installs as <tenfold/host_stream.h>
#pragma once
// A thread that does what it is told, one thing after the other: what a CUDA stream is to a GPU.
//
// Whoever queues work goes on at once. An event marks a point of the queue; who needs what was queued before it waits
// for the event. These are the rules of a GPU's streams, so what is ordered by them can be tried out, and tested,
// without one.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace tenfold {

/// A point in a HostStream's queue. Copies mean the same point. One that was never recorded counts as reached.
class HostEvent {
 public:
  using Clock = std::chrono::steady_clock;

  HostEvent() = default;
  /// The point that the calling thread has just reached.
  static HostEvent now() {
    std::promise<Clock::time_point> reached;
    reached.set_value(Clock::now());
    return HostEvent(reached.get_future().share());
  }

  bool reached() const { return !at_.valid() || at_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

  /// Blocks the calling thread until the point is reached; throws what the work before it threw.
  void synchronize() const {
    if (at_.valid()) at_.get();
  }

  /// Time between two recorded points; waits for both.
  double seconds_since(const HostEvent& earlier) const {
    return std::chrono::duration<double>(at_.get() - earlier.at_.get()).count();
  }

 private:
  friend class HostStream;
  explicit HostEvent(std::shared_future<Clock::time_point> at) : at_(std::move(at)) {}
  std::shared_future<Clock::time_point> at_;
};

class HostStream {
 public:
  HostStream() : thread_([this] { work_off(); }) {}
  /// Does what is still queued, then ends.
  ~HostStream() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// Queues `work` and returns at once. After work that throws, later work is left out, and events rethrow the error,
  /// until clear_error().
  void run(std::function<void()> work) {
    push([this, work = std::move(work)] {
      if (error_) return;
      try {
        work();
      } catch (...) {
        error_ = std::current_exception();
      }
    });
  }

  /// Marks the end of what is queued now.
  HostEvent record() {
    auto reached = std::make_shared<std::promise<HostEvent::Clock::time_point>>();
    HostEvent event(reached->get_future().share());
    push([this, reached] {
      if (error_) {
        reached->set_exception(error_);
      } else {
        reached->set_value(HostEvent::Clock::now());
      }
    });
    return event;
  }

  /// What is queued from now on is done again, whatever the work before it threw.
  void clear_error() {
    push([this] { error_ = nullptr; });
  }

  /// What is queued from now on waits until `event` is reached; the caller does not.
  void wait(const HostEvent& event) {
    run([event] { event.synchronize(); });
  }

 private:
  void push(std::function<void()> next) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(next));
    }
    changed_.notify_one();
  }

  void work_off() {
    while (true) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
        if (queue_.empty()) return;
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::exception_ptr error_;  // only the thread touches it
  std::thread thread_;        // the last member: it uses all others
};

}  // namespace tenfold
