// installs as <tenfold/stream_loader.h>
#pragma once
// Batches of a stream, which can only be read from its beginning onwards: a log, a socket, a compressed file, a query.
//
// Several workers can share a stream only if each reads another shard of it. The usual way is a shard for each worker;
// then another number of workers makes other batches. Here the number of shards is fixed, and workers take turns at
// them: batch after batch comes from shard after shard, whichever worker read it.

#include "lessons/10_parallel_loading/batch_queue.h"
#include "lessons/10_parallel_loading/epoch_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

namespace tenfold {

/// One shard of a stream, being read by one thread at a time.
struct StreamReader {
  /// Writes the next sample to its row; false at the end, the row untouched. What is random comes from `random`.
  std::function<bool(SampleRandom& random, const Row& row)> read;
  /// Passes over n samples; when there is none they are read for nothing.
  std::function<void(int64_t n)> skip = nullptr;
  /// Where it stands, for messages; the shard's number when there is none, or when it throws.
  std::function<std::string()> where = nullptr;
};

struct Stream {
  std::vector<Field> fields;
  /// Opens a shard. All shards together must be the stream, no sample in two of them: nobody else can see to it.
  std::function<StreamReader(const ShardIndex& shard, int64_t epoch)> open;
};

struct StreamOptions {
  int64_t batch = 32;
  int workers = 2;         ///< threads; 0: everything happens inside next(). More than shards are of no use.
  int prefetch = 2;        ///< batches that are ready or under way while the caller has another
  int64_t shards = 8;      ///< that this rank reads; decides which samples meet in a batch
  bool ordered = true;     ///< false: whichever batch is ready first
  Tail tail = Tail::keep;  ///< of each shard: its last batch may be shorter
  uint64_t seed = 0;
  ShardIndex rank = {};  ///< rank r of R reads `shards` shards, from number r * shards onwards, of R * shards
  bool pinned = false;
};

/// Where a stream loader stands: how many batches of each shard were handed out.
struct StreamState {
  int64_t epoch = 0;
  std::vector<int64_t> handed_out;  ///< one number for each shard; empty: the beginning
  /// What decides which samples are in a batch: checked when a loader goes on.
  int64_t batch_size = 0, ranks = 0, rank = 0;
  uint64_t seed = 0;
  Tail tail = Tail::keep;
};

/// The stream loader's job for its workers: a batch of one shard at a time. Batches are opened and handed out in one
/// order: the shard that is behind goes first, of several the first.
class ShardsJob {
 public:
  struct Unit {
    Slot* slot;
    size_t shard;
    int64_t rows = 0;  ///< that the shard still had
    std::exception_ptr error = nullptr;
    std::string failed_name = {};
  };

  ShardsJob(Stream stream, const StreamOptions& options, const StreamState& from)
      : stream_(checked(std::move(stream))),
        options_(checked(options)),
        state_(from),
        shards_(static_cast<size_t>(options.shards)),
        slots_(stream_.fields, options.batch, options.workers, options.prefetch, options.pinned) {
    state_.handed_out.resize(shards_.size());
    state_.batch_size = options.batch;
    state_.ranks = options.rank.count;
    state_.rank = options.rank.index;
    state_.seed = options.seed;
    state_.tail = options.tail;
    require_same_batches(from);
    for (size_t i = 0; i < shards_.size(); ++i) shards_[i].begun = shards_[i].passed_over = state_.handed_out[i];
  }

  std::optional<Unit> take() {
    if (slots_.empty()) return std::nullopt;
    std::optional<size_t> next;
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (!shards_[i].ended && (!next || shards_[i].begun < shards_[*next].begun)) next = i;
    }
    if (!next || shards_[*next].busy) return std::nullopt;
    OpenShard& shard = shards_[*next];
    shard.busy = true;
    Slot& slot = slots_.take();
    slot.begin(state_.epoch, shard.begun++, options_.batch);
    return Unit{&slot, *next};
  }

  void run(Unit& unit) noexcept {
    OpenShard& shard = shards_[unit.shard];  // nobody else touches the reader of a shard that is busy
    try {
      unit.slot->copied.wait();
      if (!shard.reader) open(shard, unit.shard);
      while (unit.rows < options_.batch && read(shard, unit.shard, Row(unit.slot->buffer, unit.rows))) ++unit.rows;
    } catch (...) {
      unit.error = std::current_exception();
      unit.failed_name = name_or(shard.reader ? shard.reader->where : nullptr,
                                 "shard " + std::to_string(shard_index(unit.shard).index) + " of the stream");
    }
  }

  bool done(const Unit& unit) {
    OpenShard& shard = shards_[unit.shard];
    shard.busy = false;
    shard.ended = unit.error || unit.rows < options_.batch;
    Slot& slot = *unit.slot;
    if (unit.error) slot.fail(unit.error, unit.rows, unit.failed_name);
    if (!unit.error && (unit.rows == 0 || (unit.rows < options_.batch && options_.tail == Tail::drop))) {
      --shard.begun;
      slots_.give_back(slot);
    } else {
      slot.batch.fields = first_rows(slot.buffer, unit.rows);
      ready_.emplace(std::pair(slot.batch.index, unit.shard), &slot);
    }
    return true;
  }

  bool epoch_is_over() const {
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (!shards_[i].ended || state_.handed_out[i] < shards_[i].begun) return false;
    }
    return true;
  }

  void begin_next_epoch() {
    ++state_.epoch;
    std::ranges::fill(state_.handed_out, 0);
    for (OpenShard& shard : shards_) shard = {};
  }

  Slot* ready() {
    const auto first = ready_.begin();
    if (first == ready_.end()) return nullptr;
    const auto [index, shard] = first->first;
    for (size_t i = 0; options_.ordered && i < shards_.size(); ++i) {
      const bool more = !shards_[i].ended || state_.handed_out[i] < shards_[i].begun;
      if (more && std::pair(state_.handed_out[i], i) < first->first) return nullptr;  // it is that shard's turn
    }
    Slot* slot = first->second;
    ready_.erase(first);
    slot->batch.index = std::accumulate(state_.handed_out.begin(), state_.handed_out.end(), int64_t{0});
    ++state_.handed_out[shard];
    return slot;
  }

  void give_back(Slot& slot) { slots_.give_back(slot); }

  const StreamState& state() const { return state_; }

 private:
  static constexpr int64_t kMostSamples = int64_t{1} << 40;  // a shard has fewer

  struct OpenShard {
    std::optional<StreamReader> reader = std::nullopt;
    int64_t begun = 0;        // batches
    int64_t passed_over = 0;  // of them, batches that were handed out before the state was saved
    int64_t samples = 0;
    bool busy = false, ended = false;
  };

  static Stream checked(Stream stream) {
    require_valid(stream.fields, "StreamLoader");
    if (!stream.open) throw std::invalid_argument("StreamLoader: the stream has no open()");
    return stream;
  }

  /// `from` against state_, which has what this loader was asked for. How long a shard is, only reading it tells.
  void require_same_batches(const StreamState& from) const {
    const std::string who = "StreamLoader";
    if (!from.handed_out.empty()) {  // empty: there is no saved state, or it is the beginning
      require_same(who, "shard count", from.handed_out.size(), shards_.size());
      require_same(who, "batch size", from.batch_size, state_.batch_size);
      require_same(who, "rank count", from.ranks, state_.ranks);
      require_same(who, "rank", from.rank, state_.rank);
      require_same(who, "seed", from.seed, state_.seed);
      require_same(who, "tail", from.tail, state_.tail);
    }
    const int64_t most = kMostSamples / options_.batch;
    if (from.epoch < 0 || std::ranges::any_of(from.handed_out, [most](int64_t n) { return n < 0 || n > most; }))
      throw std::invalid_argument("StreamLoader: the saved state has an epoch or a number of batches out of range");
  }

  static StreamOptions checked(const StreamOptions& options) {
    if (options.batch < 1 || options.shards < 1)
      throw std::invalid_argument("StreamLoader: batch and shards must be at least 1");
    require_valid(options.rank, "StreamLoader");
    return options;
  }

  ShardIndex shard_index(size_t shard) const {
    return {options_.rank.index * options_.shards + static_cast<int64_t>(shard), options_.rank.count * options_.shards};
  }

  void open(OpenShard& shard, size_t index) {
    shard.reader = stream_.open(shard_index(index), state_.epoch);
    if (!shard.reader->read) throw std::invalid_argument("open() gave a reader without read()");
    if (shard.passed_over == 0) return;
    const auto nowhere = make_buffer(stream_.fields, 1, /*pinned=*/false);
    const auto pass_over = [&](int64_t samples) {
      if (shard.reader->skip) {
        if (samples > 0) shard.reader->skip(samples);
        shard.samples += samples;
      } else {
        while (samples-- > 0 && read(shard, index, Row(nowhere, 0))) {
        }
      }
    };
    // The last batch that was handed out may have been short, but not empty.
    pass_over((shard.passed_over - 1) * options_.batch);
    if (!read(shard, index, Row(nowhere, 0)))
      throw std::runtime_error("the saved state has " + std::to_string(shard.passed_over) + " batches of shard " +
                               std::to_string(shard_index(index).index) + ", which ends before");
    pass_over(options_.batch - 1);
  }

  bool read(OpenShard& shard, size_t index, const Row& row) const {
    const int64_t sample = shard_index(index).index * kMostSamples + shard.samples;
    SampleRandom random(options_.seed, state_.epoch, sample);
    if (!shard.reader->read(random, row)) return false;
    ++shard.samples;
    return true;
  }

  Stream stream_;
  StreamOptions options_;
  StreamState state_;
  std::vector<OpenShard> shards_;

  SlotPool slots_;
  std::map<std::pair<int64_t, size_t>, Slot*> ready_;  // by batch of its shard, and shard
};

/// A stream's samples, each exactly once per epoch if its shards do not overlap: the same batches, bit for bit, for any
/// number of workers and any prefetch depth. Ranks end their epochs each on its own: shards are not equally long.
/// next(), state() and park() are BatchQueue's. After a LoadError the rest of the shard that it came from is not read
/// in this epoch: where a reader stands after it threw, nobody knows.
class StreamLoader : public BatchQueue<ShardsJob> {
 public:
  /// Starts to read, from the beginning or from where another loader was. Throws std::invalid_argument for options that
  /// make no sense, for a stream without fields or open(), and for a state of another number of shards, batch size,
  /// rank, number of ranks, seed or tail. A state beyond the end of a shard is a LoadError where that shard comes.
  StreamLoader(Stream stream, const StreamOptions& options, const StreamState& from = {})
      : BatchQueue(options.workers, std::move(stream), options, from) {}
};

}  // namespace tenfold
