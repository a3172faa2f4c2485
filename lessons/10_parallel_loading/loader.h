// installs as <tenfold/loader.h>
#pragma once
// Batches of a data set whose samples can be loaded in any order, made by worker threads ahead of the training loop.
//
// Why not torch::data: its workers hand a vector of samples to a collate function, which copies them once more; the
// data set is copied for each worker; a sample has no random stream of its own, so augmentation depends on the number
// of workers; state cannot be saved in mid-epoch, because samplers run ahead of what was handed out; no memory is
// page-locked or used again.

#include "batch_queue.h"
#include "epoch_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace tenfold {

/// Samples that can be loaded in any order, by any thread.
struct Dataset {
  int64_t size = 0;
  std::vector<Field> fields;
  /// Writes sample i, 0 <= i < size, to its row. Called by many threads at once. What is random comes from `random`.
  std::function<void(int64_t i, SampleRandom& random, const Row& row)> load;
  /// For messages; the number alone when there is none, or when it throws.
  std::function<std::string(int64_t i)> name = nullptr;
};

struct LoaderOptions {
  int64_t batch = 32;
  int workers = 2;   ///< threads; 0: everything happens inside next()
  int prefetch = 2;  ///< batches that are ready or under way while the caller has another
  bool shuffle = true;
  bool ordered = true;  ///< false: whichever batch of the epoch is ready first
  Tail tail = Tail::keep;
  uint64_t seed = 0;
  ShardIndex rank = {};
  bool pinned = false;  ///< page-locked buffers; needs a CUDA device
};

/// Where a loader stands: what it has handed out. What workers did beyond that is done again, so a loader with other
/// workers and another prefetch depth may go on from here.
struct LoaderState {
  int64_t epoch = 0;
  int64_t batch = 0;        ///< the batches of the epoch before this one were handed out
  std::set<int64_t> ahead;  ///< and these; empty for an ordered loader
  /// What decides which samples are in a batch: checked when a loader goes on. Ordered loaders of all ranks stand at
  /// the same batch after each step, so the state of one will do for all once `rank` is set.
  int64_t size = 0, batch_size = 0, ranks = 0, rank = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  Tail tail = Tail::keep;
};

/// The loader's job for its workers: hands out a few rows of a batch at a time.
class RandomAccessJob {
 public:
  struct Unit {
    Slot* slot;
    int64_t first, count;  ///< rows
    std::exception_ptr error = nullptr;
    int64_t failed_row = 0;
    std::string failed_name = {};
  };

  RandomAccessJob(Dataset dataset, const LoaderOptions& options, const LoaderState& from)
      : dataset_(checked(std::move(dataset))),
        options_(options),
        plan_(dataset_.size, options.batch, options.rank, options.tail),
        // A batch is spread over all workers, some rows at a time: taking them costs little, and none is far behind at
        // the end.
        unit_rows_(std::max<int64_t>(1, options.batch / (4 * std::max(1, options.workers)))),
        from_(from),
        state_(from),
        slots_(dataset_.fields, options.batch, options.workers, options.prefetch, options.pinned) {
    require_same_batches(from);
    opening_epoch_ = from.epoch;
  }

  std::optional<Unit> take() {
    while (opened_ == nullptr) {
      if (slots_.empty()) return std::nullopt;
      open();
    }
    const auto rows = static_cast<int64_t>(opened_->batch.samples.size());
    Unit unit{opened_, next_row_, std::min(unit_rows_, rows - next_row_)};
    next_row_ += unit.count;
    if (next_row_ == rows) opened_ = nullptr;
    return unit;
  }

  void run(Unit& unit) noexcept {
    const Batch& batch = unit.slot->batch;
    try {
      unit.slot->copied.wait();
    } catch (...) {
      unit.error = std::current_exception(), unit.failed_row = unit.first, unit.failed_name = "the buffer of a batch";
    }
    for (int64_t row = unit.first; row < unit.first + unit.count && !unit.error; ++row) {
      const int64_t sample = batch.samples[static_cast<size_t>(row)];
      try {
        SampleRandom random(options_.seed, batch.epoch, sample);
        dataset_.load(sample, random, Row(unit.slot->buffer, row));
      } catch (...) {
        unit.error = std::current_exception(), unit.failed_row = row, unit.failed_name = name_of(sample);
      }
    }
  }

  bool done(const Unit& unit) {
    Slot& slot = *unit.slot;
    if (unit.error) slot.fail(unit.error, unit.failed_row, unit.failed_name);
    slot.left -= unit.count;
    if (slot.left == 0) ready_.emplace(std::pair(slot.batch.epoch, slot.batch.index), &slot);
    return false;
  }

  bool epoch_is_over() const { return state_.batch == plan_.batches(); }

  void begin_next_epoch() { ++state_.epoch, state_.batch = 0; }

  Slot* ready() {
    const auto first = ready_.begin();
    if (first == ready_.end() || first->first.first != state_.epoch) return nullptr;
    const int64_t index = first->first.second;
    if (options_.ordered && index != state_.batch) return nullptr;
    Slot* slot = first->second;
    ready_.erase(first);
    state_.ahead.insert(index);
    while (state_.ahead.erase(state_.batch) > 0) ++state_.batch;
    return slot;
  }

  void give_back(Slot& slot) { slots_.give_back(slot); }

  const LoaderState& state() const { return state_; }
  const EpochPlan& plan() const { return plan_; }

 private:
  static Dataset checked(Dataset dataset) {
    require_valid(dataset.fields, "Loader");
    if (!dataset.load) throw std::invalid_argument("Loader: the data set has no load()");
    return dataset;
  }

  std::string name_of(int64_t sample) const {
    const std::string number = "sample " + std::to_string(sample);
    return dataset_.name ? name_or([&] { return dataset_.name(sample); }, number) : number;
  }

  void require_same_batches(const LoaderState& from) {
    state_.size = dataset_.size, state_.batch_size = options_.batch;
    state_.ranks = options_.rank.count, state_.rank = options_.rank.index;
    state_.seed = options_.seed, state_.shuffle = options_.shuffle, state_.tail = options_.tail;
    if (from.size != 0) {  // 0: there is no saved state
      const std::string who = "Loader";
      require_same(who, "data set size", from.size, state_.size);
      require_same(who, "batch size", from.batch_size, state_.batch_size);
      require_same(who, "rank count", from.ranks, state_.ranks);
      require_same(who, "rank", from.rank, state_.rank);
      require_same(who, "seed", from.seed, state_.seed);
      require_same(who, "shuffle", int{from.shuffle}, int{state_.shuffle});
      require_same(who, "tail", from.tail, state_.tail);
    }
    // Beyond the last batch no worker would open one, and next() would wait for ever.
    const bool exists =
        from.epoch >= 0 && from.batch >= 0 && from.batch <= plan_.batches() &&
        (from.ahead.empty() || (*from.ahead.begin() > from.batch && *from.ahead.rbegin() < plan_.batches()));
    if (!exists)
      throw std::invalid_argument("Loader: the saved state stands at batch " + std::to_string(from.batch) +
                                  " of epoch " + std::to_string(from.epoch) +
                                  (from.ahead.empty() ? "" : " with others handed out ahead of it") +
                                  ", which is no place in epochs of " + std::to_string(plan_.batches()) + " batches");
  }

  /// Begins the next batch that was not handed out before the state was saved.
  void open() {
    if (opening_ == plan_.batches()) ++opening_epoch_, opening_ = 0;
    const int64_t index = opening_++;
    // Not of state_: the caller may be an epoch further by the time a worker comes here.
    if (opening_epoch_ == from_.epoch && (index < from_.batch || from_.ahead.contains(index))) return;
    if (!order_ || order_epoch_ != opening_epoch_) {
      order_ = epoch_order(dataset_.size, options_.seed, opening_epoch_, options_.shuffle);
      order_epoch_ = opening_epoch_;
    }
    Slot& slot = slots_.take();
    auto samples = plan_.samples(*order_, index);
    slot.begin(opening_epoch_, index, static_cast<int64_t>(samples.size()));
    slot.batch.samples = std::move(samples);
    opened_ = &slot, next_row_ = 0;
  }

  Dataset dataset_;
  LoaderOptions options_;
  EpochPlan plan_;
  int64_t unit_rows_;
  LoaderState from_, state_;

  SlotPool slots_;
  std::map<std::pair<int64_t, int64_t>, Slot*> ready_;  // by epoch and index

  Slot* opened_ = nullptr;  // the batch whose rows are being handed out
  int64_t next_row_ = 0;
  int64_t opening_epoch_ = 0, opening_ = 0;  // the batch to open next
  std::optional<std::vector<int64_t>> order_;
  int64_t order_epoch_ = 0;
};

/// Every sample of this rank's part exactly once per epoch: the same batches, bit for bit, for any number of workers
/// and any prefetch depth. next(), state() and park() are BatchQueue's.
class Loader : public BatchQueue<RandomAccessJob> {
 public:
  /// Starts to load, from the beginning or from where another loader was. Throws std::invalid_argument for options that
  /// make no sense, for a data set without fields or load(), for a state of another data set size, batch size, rank,
  /// number of ranks, seed, shuffle or tail, and for one that stands at no place of an epoch.
  Loader(Dataset dataset, const LoaderOptions& options, const LoaderState& from = {})
      : BatchQueue(options.workers, std::move(dataset), options, from) {}

  int64_t batches_per_epoch() const { return job().plan().batches(); }
};

}  // namespace tenfold
