// installs as <tenfold/workers.h>
#pragma once
// Threads that share one job: they take units of it, work on them, and can be parked and stopped at any moment.

#include <c10/util/ParallelGuard.h>

#include <concepts>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tenfold {

/// What workers need of a job. take() and done() are called with the lock held, run() without; run() must not throw.
template <class J>
concept Job = requires(J job, typename J::Unit unit) {
  { job.take() } -> std::same_as<std::optional<typename J::Unit>>;  // nothing to do right now: nullopt
  { job.run(unit) } noexcept;
  { job.done(unit) } -> std::same_as<bool>;  // whether other workers may have something to do now
};

/// `count` threads at work on a job from the constructor to the destructor, which waits only for the units under way.
/// With no threads the work is done inside wait(), by whoever waits.
template <Job J>
class Workers {
 public:
  /// Throws std::invalid_argument for a negative count, std::system_error when a thread cannot be started.
  Workers(J& job, int count) : job_(job) {
    if (count < 0) throw std::invalid_argument("workers must be 0 or more, got " + std::to_string(count));
    threads_.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    for (std::jthread& thread : threads_) thread.request_stop();  // all, before the first is joined
  }

  /// The lock that guards the job.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  /// To be called when the job has new units.
  void more_to_do() { work_.notify_all(); }

  /// Returns when ready() holds; `lock` is held whenever ready() is called, and afterwards.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready ready) {
    if (!threads_.empty()) {
      done_.wait(lock, ready);
      return;
    }
    while (!ready()) {
      auto unit = job_.take();
      if (!unit) throw std::logic_error("Workers: waits for what nobody does");
      lock.unlock();
      job_.run(*unit);
      lock.lock();
      job_.done(*unit);
    }
  }

  /// true: returns when every thread stands still; false: they go on.
  void park(bool parked) {
    std::unique_lock lock(mutex_);
    parked_ = parked;
    if (parked) {
      done_.wait(lock, [this] { return running_ == 0; });
    } else {
      work_.notify_all();
    }
  }

 private:
  void work(const std::stop_token& stop) {
    const c10::ParallelGuard one_thread(true);  // an ATen operator in here must not start a team of threads of its own
    std::unique_lock lock(mutex_);
    while (true) {
      std::optional<typename J::Unit> unit;
      work_.wait(lock, stop, [&] { return !parked_ && (unit = job_.take()).has_value(); });
      if (stop.stop_requested()) return;  // a unit that was taken is left undone: nobody waits for it any more
      ++running_;
      lock.unlock();
      job_.run(*unit);
      lock.lock();
      --running_;
      if (job_.done(*unit)) work_.notify_all();
      done_.notify_all();
    }
  }

  J& job_;
  std::mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable done_;
  bool parked_ = false;
  int running_ = 0;
  std::vector<std::jthread> threads_;  // last: they are joined before what they use goes away
};

}  // namespace tenfold
