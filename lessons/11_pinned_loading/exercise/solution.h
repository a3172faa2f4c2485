#pragma once
// The kept solution of exercise 11; CI proves that it passes.
#include <algorithm>
#include <deque>
#include <stdexcept>
#include <vector>

#include "lessons/11_pinned_loading/host_stream.h"

/// Page-locked buffers 0, 1, 2, ... of one size, for batches on their way to one device or to several. Locking one is
/// slow, so buffers are used again, and at most `most` are ever locked.
///
///   const int buffer = pool.take();       // the host fills it ...
///   pool.reading(buffer, stream.record()) // ... queues a copy out of it on a stream, for each device ...
///   pool.give_back(buffer);               // ... and goes on, long before the copies are done
class PinnedPool {
 public:
  explicit PinnedPool(int most) : most_(most) {}

  /// A buffer that the host may overwrite: one that was given back and that no copy reads any more; else a new one, as
  /// long as fewer than `most` are locked; else waits for the copies out of the buffer that was given back first.
  /// Throws std::runtime_error when all `most` are taken and none was given back: waiting would never end.
  int take() {
    auto chosen = std::ranges::find_if(given_back_, [this](int buffer) { return is_free(buffer); });
    if (chosen == given_back_.end()) {
      if (locked() < most_) {
        readers_.emplace_back();
        return locked() - 1;
      }
      if (given_back_.empty()) throw std::runtime_error("all buffers are taken and none was given back");
      chosen = given_back_.begin();
    }
    const int buffer = *chosen;
    given_back_.erase(chosen);
    for (const tenfold::HostEvent& done : readers_of(buffer)) done.synchronize();
    readers_of(buffer).clear();
    return buffer;
  }

  /// A copy out of this buffer was queued; it reads until `done` is reached. May be called several times.
  void reading(int buffer, const tenfold::HostEvent& done) { readers_of(buffer).push_back(done); }

  /// The host does not need the buffer any more. Never waits.
  void give_back(int buffer) { given_back_.push_back(buffer); }

  /// How many buffers were ever locked.
  int locked() const { return static_cast<int>(readers_.size()); }

 private:
  std::vector<tenfold::HostEvent>& readers_of(int buffer) { return readers_[static_cast<size_t>(buffer)]; }
  bool is_free(int buffer) {
    return std::ranges::all_of(readers_of(buffer), [](const tenfold::HostEvent& done) { return done.reached(); });
  }

  int most_;
  std::vector<std::vector<tenfold::HostEvent>> readers_;  // of each locked buffer
  std::deque<int> given_back_;                            // the first one first
};
