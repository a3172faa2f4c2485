// installs as <tenfold/batch_queue.h>
#pragma once
// What the caller of a loader does: waits for its next batch, gives the last one's buffer back, hears of errors.

#include <ATen/record_function.h>
#include "batch.h"
#include "workers.h"

#include <concepts>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tenfold {

/// What next() throws for a sample that could not be loaded; names it. The error as it was thrown is nested inside
/// (std::rethrow_if_nested).
struct LoadError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What `name` says, or `otherwise` where there is no name or asking for it throws, too: it is called after load() has
/// thrown, by a thread that nobody catches for.
inline std::string name_or(const std::function<std::string()>& name, const std::string& otherwise) {
  if (!name) return otherwise;
  try {
    return name();
  } catch (...) {
    return otherwise + " (whose name could not be told: that threw, too)";
  }
}

/// Throws std::invalid_argument, "WHO: ...", when what decided about batches is not what it was when a state was saved.
template <class Value>
void require_same(const std::string& who, const std::string& what, const Value& saved, const Value& now) {
  using std::to_string;
  if (saved != now)
    throw std::invalid_argument(who + ": the saved state has " + what + " " + to_string(saved) + ", this loader has " +
                                to_string(now) + ": it would go on with other batches");
}

/// A buffer on its round: free, being filled, ready, with the caller, free again.
struct Slot {
  std::vector<torch::Tensor> buffer;  ///< (batch, ...) each
  CopyDone copied;
  Batch batch;
  int64_t left = 0;  ///< rows that are not loaded yet

  std::exception_ptr error = nullptr;  ///< of the first row that failed
  int64_t failed_row = 0;
  std::string failed_name;

  void begin(int64_t epoch, int64_t index, int64_t rows) {
    left = rows, error = nullptr;
    batch = {first_rows(buffer, rows), {}, epoch, index, &copied};
  }
  void fail(std::exception_ptr what, int64_t row, const std::string& name) {
    if (!error || row < failed_row) error = std::move(what), failed_row = row, failed_name = name;
  }
  /// Throws LoadError "NAME: what happened", with the error itself nested inside.
  [[noreturn]] void rethrow() const {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& cause) {
      std::throw_with_nested(LoadError(failed_name + ": " + cause.what()));
    } catch (...) {
      std::throw_with_nested(LoadError(failed_name + ": could not be loaded"));
    }
  }
};

/// The slots of a loader, and which of them are free. To be used with the lock held.
class SlotPool {
 public:
  /// One slot for the batch that the caller has and, where there are workers, `prefetch` more. Throws
  /// std::invalid_argument for prefetch < 1.
  SlotPool(const std::vector<Field>& fields, int64_t batch, int workers, int prefetch, bool pinned) {
    if (prefetch < 1) throw std::invalid_argument("prefetch must be at least 1, got " + std::to_string(prefetch));
    slots_ = std::vector<Slot>(workers == 0 ? 1 : static_cast<size_t>(prefetch) + 1);
    for (Slot& slot : slots_) {
      slot.buffer = make_buffer(fields, batch, pinned);
      free_.push_back(&slot);
    }
  }
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  bool empty() const { return free_.empty(); }
  Slot& take() {
    Slot& slot = *free_.front();  // the one given back first: its copy to the device is the likeliest to be over
    free_.pop_front();
    return slot;
  }
  void give_back(Slot& slot) { free_.push_back(&slot); }

 private:
  std::vector<Slot> slots_;
  std::deque<Slot*> free_;
};

/// A job that fills slots; all but run() is called with the lock held.
template <class J>
concept FillsSlots = Job<J> && requires(J job, Slot& slot) {
  { job.epoch_is_over() } -> std::same_as<bool>;  // everything of the epoch was handed out
  { job.begin_next_epoch() };
  { job.ready() } -> std::same_as<Slot*>;  // the batch to hand out next, taken from the job; null while it is not ready
  { job.give_back(slot) };
  { job.state() };  // what was handed out
};

/// Batches of a job, made by worker threads. To be used by one thread; destroying it stops the workers after the unit
/// that they are at.
template <FillsSlots J>
class BatchQueue {
 public:
  /// The job is made of `what`. Throws std::invalid_argument for a negative number of workers, and what the job's
  /// constructor throws.
  template <class... What>
  explicit BatchQueue(int workers, What&&... what) : job_(std::forward<What>(what)...), workers_(job_, workers) {}

  /// The next batch, or null once at the end of each epoch: `while (const Batch* batch = loader.next())` is an epoch.
  /// The batch holds until next() is called again. Throws LoadError in place of a batch with a sample that could not be
  /// loaded, and goes on with the batch after it when called again. The time in here is what training waits for: region
  /// "data".
  const Batch* next() {
    RECORD_USER_SCOPE("data");
    auto lock = workers_.lock();
    give_back();
    workers_.wait(lock, [this] { return job_.epoch_is_over() || (held_ = job_.ready()) != nullptr; });
    if (held_ == nullptr) {
      job_.begin_next_epoch();
      workers_.more_to_do();
      return nullptr;
    }
    if (held_->error) held_->rethrow();
    return &held_->batch;
  }

  /// The same for training that does not ask where an epoch ends. Throws std::runtime_error when an epoch has no batch
  /// at all.
  const Batch& next_of_any_epoch() {
    const Batch* batch = next();
    if (batch == nullptr) batch = next();
    if (batch == nullptr) throw std::runtime_error("there is no batch in an epoch");
    return *batch;
  }

  /// What was handed out so far.
  auto state() {
    const auto lock = workers_.lock();
    return job_.state();
  }

  /// true: returns when all workers stand still; false: they go on. For timing something else meanwhile.
  void park(bool parked) { workers_.park(parked); }

 protected:
  const J& job() const { return job_; }

 private:
  void give_back() {
    if (held_ == nullptr) return;
    job_.give_back(*std::exchange(held_, nullptr));
    workers_.more_to_do();
  }

  J job_;
  Slot* held_ = nullptr;
  Workers<J> workers_;  // last: its threads stop before the job goes away
};

}  // namespace tenfold
