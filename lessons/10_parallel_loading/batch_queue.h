#pragma once
// What the caller of a loader does: waits for its next batch, gives the last one's buffer back, hears of errors.

#include <ATen/record_function.h>
#include <tenfold/batch.h>
#include <tenfold/workers.h>

#include <concepts>
#include <cstdint>
#include <exception>
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

/// A job that fills slots; all but run() is called with the lock held.
template <class J>
concept FillsSlots = Job<J> && requires(J job, Slot& slot) {
  { job.epoch_is_over() } -> std::same_as<bool>;  // everything of the epoch was handed out
  { job.begin_next_epoch() };
  { job.ready() } -> std::same_as<Slot*>;  // the batch to hand out next, taken from the job; null while it is not ready
  { job.give_back(slot) };
};

/// Batches of a job, made by worker threads. To be used by one thread.
template <FillsSlots J>
class BatchQueue {
 public:
  BatchQueue(J& job, int workers) : job_(job), workers_(job, workers) {}

  /// The next batch, or null at the end of an epoch; the call after that begins the next one. Region "data": the time in here is
  /// what training waits for. Throws LoadError in place of a batch with a sample that could not be loaded; the next call goes on
  /// with the batch after it.
  const Batch* next() {
    RECORD_USER_SCOPE("data");
    auto lock = workers_.lock();
    give_back();
    const auto arrived = [this] { return job_.epoch_is_over() || (held_ = job_.ready()) != nullptr; };
    workers_.wait(lock, arrived);
    if (held_ == nullptr) {
      job_.begin_next_epoch();
      workers_.more_to_do();
      return nullptr;
    }
    if (held_->error) held_->rethrow();
    return &held_->batch;
  }

  template <class Read>
  auto locked(const Read& read) {
    auto lock = workers_.lock();
    return read();
  }

  void park(bool parked) { workers_.park(parked); }

 private:
  void give_back() {
    if (held_ == nullptr) return;
    job_.give_back(*std::exchange(held_, nullptr));
    workers_.more_to_do();
  }

  J& job_;
  Slot* held_ = nullptr;
  Workers<J> workers_;
};

}  // namespace tenfold
