#include "replay.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

namespace tenfold {
namespace {

using Action = AllocatorAction;

constexpr size_t kMostWindows = 10;

/// The first tenth of the allocations is taken for the first batches, in which each line grows.
constexpr int64_t kFirstBatches = 10;

/// What roundup_power2_divisions:4 makes of a size (c10/cuda/CUDACachingAllocator.cpp, round_size): up to a quarter of
/// the power of two below it; small ones, like all sizes, to 512 bytes.
int64_t rounded_to_quarters(int64_t bytes) {
  constexpr int64_t kLeast = 512;
  if (bytes <= 4 * kLeast) return (bytes + kLeast - 1) / kLeast * kLeast;
  const int64_t quarter = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

bool takes(Action action) { return action == Action::SEGMENT_ALLOC || action == Action::SEGMENT_MAP; }
bool gives_back(Action action) { return action == Action::SEGMENT_FREE || action == Action::SEGMENT_UNMAP; }

/// What is still there at the trace's end tells what was there at its start.
struct Start {
  int64_t requested = 0, reserved = 0, rounded = 0;
  std::unordered_map<int64_t, const SnapshotBlock*> blocks;  ///< in use, that the trace does not allocate; by address
};

Start start_of(const MemorySnapshot& snapshot, int device, const std::vector<AllocatorEvent>& trace) {
  Start start;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device) continue;
    start.reserved += segment.bytes;
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == SnapshotBlock::State::FREE) continue;
      start.requested += block.requested;
      start.rounded += rounded_to_quarters(block.requested);
      start.blocks[block.address] = &block;
    }
  }
  std::unordered_set<int64_t> freed;
  for (const AllocatorEvent& event : trace) {
    if (takes(event.action)) start.reserved -= event.bytes;
    if (gives_back(event.action)) start.reserved += event.bytes;
    const int64_t sign = event.action == Action::ALLOC ? -1 : event.action == Action::FREE_COMPLETED ? 1 : 0;
    start.requested += sign * event.bytes;
    if (sign != 0) start.rounded += sign * rounded_to_quarters(event.bytes);
  }
  // An address whose last event is an allocation belongs to the trace.
  for (auto event = trace.rbegin(); event != trace.rend(); ++event) {
    if (event->action == Action::FREE_COMPLETED) freed.insert(event->address);
    if (event->action == Action::ALLOC && !freed.contains(event->address)) start.blocks.erase(event->address);
  }
  return start;
}

/// Holders at the event after which most was requested.
std::vector<Holder> holders_at(const Start& start, const std::vector<AllocatorEvent>& trace, size_t peak) {
  struct Live {
    int64_t bytes;
    uint32_t place;
  };
  std::unordered_map<int64_t, Live> live;
  for (const auto& [address, block] : start.blocks) live[address] = {block->requested, block->place};
  std::unordered_set<int64_t> seen;  // a free without an allocation: it was there when the trace began
  for (const AllocatorEvent& event : trace) {
    if (event.action == Action::ALLOC) seen.insert(event.address);
    if (event.action == Action::FREE_COMPLETED && seen.insert(event.address).second)
      live[event.address] = {event.bytes, kBeforeTrace};
  }
  for (size_t i = 0; i < peak; ++i) {
    if (trace[i].action == Action::ALLOC) live[trace[i].address] = {trace[i].bytes, trace[i].place};
    if (trace[i].action == Action::FREE_COMPLETED) live.erase(trace[i].address);
  }
  std::map<uint32_t, Amount> by_place;
  for (const auto& [address, held] : live) by_place[held.place].add(held.bytes);
  std::vector<Holder> holders;
  holders.reserve(by_place.size());
  for (const auto& [place, held] : by_place) holders.push_back({place, held});
  std::ranges::stable_sort(holders, std::ranges::greater(), [](const Holder& holder) { return holder.held.bytes; });
  return holders;
}

/// Follows the trace, event by event.
class Follower {
 public:
  Follower(const std::vector<Place>& places, const Start& start, const std::vector<AllocatorEvent>& trace)
      : places_(places), trace_(trace) {
    out_.events = static_cast<int64_t>(trace.size());
    out_.fits = start.requested >= 0 && start.reserved >= 0;
    requested_ = std::max<int64_t>(0, start.requested);
    reserved_ = std::max<int64_t>(0, start.reserved);
    rounded_ = std::max<int64_t>(0, start.rounded);
    out_.requested_at_start = out_.requested_peak = requested_;
    out_.reserved_at_start = out_.reserved_peak = reserved_;
    out_.rounded_peak = rounded_;
    allocations_ = std::ranges::count(trace, Action::ALLOC, &AllocatorEvent::action);
    const size_t windows = std::min(kMostWindows, trace.size());
    out_.windows.resize(windows);
    out_.seconds = seconds_at(trace.size() - 1);
  }

  Replay follow() {
    for (size_t i = 0; i < trace_.size(); ++i) {
      Window& window = window_at(i);
      step(i, window);
      window.reserved_peak = std::max(window.reserved_peak, reserved_);
      window.requested_peak = std::max(window.requested_peak, requested_);
      out_.reserved_peak = std::max(out_.reserved_peak, reserved_);
      out_.rounded_peak = std::max(out_.rounded_peak, rounded_);
      if (requested_ > out_.requested_peak) {
        out_.requested_peak = requested_;
        peak_ = i + 1;
      }
    }
    out_.peak_s = peak_ == 0 ? 0 : seconds_at(peak_ - 1);
    return std::move(out_);
  }
  /// Events up to the peak.
  size_t peak() const { return peak_; }

 private:
  double seconds_at(size_t event) const {
    return std::max(0.0, 1e-6 * static_cast<double>(trace_[event].time_us - trace_.front().time_us));
  }

  /// Parts of equal time; of equal numbers of events where no times were recorded.
  Window& window_at(size_t event) {
    const size_t count = out_.windows.size();
    size_t index = event * count / trace_.size();
    if (out_.seconds > 0) {
      const double share = seconds_at(event) / out_.seconds;
      index = std::min(count - 1, static_cast<size_t>(share * static_cast<double>(count)));
    }
    Window& window = out_.windows[index];
    window.begin_s = out_.seconds * static_cast<double>(index) / static_cast<double>(count);
    window.end_s = out_.seconds * static_cast<double>(index + 1) / static_cast<double>(count);
    return window;
  }

  bool late() const { return allocated_ * 2 > allocations_; }

  void step(size_t index, Window& window) {
    const AllocatorEvent& event = trace_[index];
    if (takes(event.action)) {
      reserved_ += event.bytes;
      window.taken.add(event.bytes);
      out_.taken.add(event.bytes);
      if (late()) out_.taken_late.add(event.bytes);
      for (Returns* returns : {&out_.by_empty_cache, &out_.by_allocator}) {
        if (returns->calls.count > 0)
          returns->asked_again = std::min(returns->calls.bytes, returns->asked_again + event.bytes);
      }
      taken_for_next_ += event.bytes;
    } else if (gives_back(event.action)) {
      reserved_ = std::max<int64_t>(0, reserved_ - event.bytes);
      window.given_back.add(event.bytes);
      out_.given_back.add(event.bytes);
      give_back(index);
    } else if (event.action == Action::ALLOC) {
      requested_ += event.bytes;
      rounded_ += rounded_to_quarters(event.bytes);
      ++allocated_;
      note_size(event);
      taken_for_next_ = 0;
    } else if (event.action == Action::FREE_COMPLETED) {
      requested_ = std::max<int64_t>(0, requested_ - event.bytes);
      rounded_ = std::max<int64_t>(0, rounded_ - rounded_to_quarters(event.bytes));
      const auto owner = owners_.find(event.address);
      if (owner == owners_.end()) return;
      lines_[owner->second].has_freed = true;
      owners_.erase(owner);
    } else {
      out_.out_of_memory.push_back({event.place, event.bytes, event.address, requested_, reserved_});
      taken_for_next_ = 0;
    }
  }

  /// Frees that follow on each other, from one stack, are one return of the cache.
  void give_back(size_t index) {
    const AllocatorEvent& event = trace_[index];
    const bool first = index == 0 || !gives_back(trace_[index - 1].action) || trace_[index - 1].place != event.place;
    if (index >= run_end_) {
      run_end_ = index;
      while (run_end_ < trace_.size() && gives_back(trace_[run_end_].action)) ++run_end_;
    }
    if (event.place == kNoPlace) return;  // whose doing it was is not known
    // What is given back before it ends with out of memory was no use.
    if (run_end_ < trace_.size() && trace_[run_end_].action == Action::OUT_OF_MEMORY) return;
    note_return(places_[event.place].empties_cache ? out_.by_empty_cache : out_.by_allocator, event, first);
  }
  static void note_return(Returns& returns, const AllocatorEvent& event, bool first) {
    returns.calls.bytes += event.bytes;
    if (!first) return;
    returns.calls.count += 1;
    returns.places[event.place] += 1;
  }

  void note_size(const AllocatorEvent& event) {
    owners_[event.address] = event.place;
    Line& line = lines_[event.place];
    if (event.bytes > kMiB) {
      if (sizes_.insert(event.bytes).second && late()) ++out_.new_sizes_late;
      const bool grew = line.has_freed && event.bytes > line.largest && allocated_ * kFirstBatches > allocations_;
      if (taken_for_next_ > 0 && grew) out_.grown.add(taken_for_next_);
    }
    line.largest = std::max(line.largest, event.bytes);
  }

  struct Line {
    int64_t largest = 0;
    bool has_freed = false;
  };

  const std::vector<Place>& places_;
  const std::vector<AllocatorEvent>& trace_;
  Replay out_;
  int64_t requested_ = 0, reserved_ = 0, rounded_ = 0;
  int64_t allocations_ = 0, allocated_ = 0;
  int64_t taken_for_next_ = 0;
  size_t peak_ = 0, run_end_ = 0;
  std::unordered_set<int64_t> sizes_;
  std::unordered_map<int64_t, uint32_t> owners_;
  std::unordered_map<uint32_t, Line> lines_;
};

}  // namespace

std::optional<Replay> replay(const MemorySnapshot& snapshot, int device) {
  const auto index = static_cast<size_t>(device);
  if (index >= snapshot.traces.size() || snapshot.traces[index].empty()) return std::nullopt;
  const std::vector<AllocatorEvent>& trace = snapshot.traces[index];
  const Start start = start_of(snapshot, device, trace);
  Follower follower(snapshot.places, start, trace);
  Replay all = follower.follow();
  all.holders = holders_at(start, trace, follower.peak());
  return all;
}

}  // namespace tenfold
