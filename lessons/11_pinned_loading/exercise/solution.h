#pragma once
// The kept solution of exercise 11; CI proves that it passes.
#include <functional>
#include <vector>

/// Buffers 0 .. count-1, handed out in turn. `wait(i)` blocks until the reader of buffer i has finished, and must be
/// called only for a buffer that has a reader.
class Ring {
 public:
  Ring(int count, std::function<void(int)> wait) : busy_(static_cast<size_t>(count)), wait_(std::move(wait)) {}

  /// The buffer to fill next; safe to overwrite when this returns.
  int next() {
    const size_t i = next_;
    next_ = (next_ + 1) % busy_.size();
    if (busy_[i]) wait_(static_cast<int>(i));
    busy_[i] = false;
    return static_cast<int>(i);
  }

  /// Says that a reader of buffer i has been started.
  void reading(int i) { busy_[static_cast<size_t>(i)] = true; }

 private:
  std::vector<bool> busy_;
  size_t next_ = 0;
  std::function<void(int)> wait_;
};
