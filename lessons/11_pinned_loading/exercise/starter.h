#pragma once
// Your answer to exercise 11. Build and check it with: ./tenfold exercise 11
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
    // Hint: given back is not the same as free. Who may still be reading this one?
    return locked_++;
  }

  /// A copy out of this buffer was queued; it reads until `done` is reached. May be called several times.
  void reading(int buffer, const tenfold::HostEvent& done) { (void)buffer, (void)done; }

  /// The host does not need the buffer any more. Never waits.
  void give_back(int buffer) { (void)buffer; }

  /// How many buffers were ever locked.
  int locked() const { return locked_; }

 private:
  [[maybe_unused]] int most_;
  int locked_ = 0;
};
