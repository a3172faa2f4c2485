#pragma once
// What is remembered of every word for the search for races: part of the microscope's inside.

#include "common/microscope/mapped_memory.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace tenfold::simt {

/// Who touched a word last, and when in the sense of what orders it.
struct Stamp {
  uint32_t block = 0;      ///< number of the block over all launches, from 1; 0: nobody
  uint32_t barrier = 0;    ///< barriers that the block had passed
  uint32_t warp_sync = 0;  ///< the lane's clock in its warp: Warp::now()
  uint16_t thread = 0;     ///< or an agent's number; `warp_sync` is then its clock
  uint16_t site = 0;       ///< index in State::sites; the top bit is Kind::atomic
  static constexpr uint16_t kAtomic = 0x8000;
  /// `barrier` of an asynchronous copy that its thread has not yet waited for: no barrier comes after it.
  static constexpr uint32_t kInFlight = std::numeric_limits<uint32_t>::max();
};

/// The history of one word: its last write and two readers since, so that every writer finds a reader other than
/// itself.
struct Shadow {
  Stamp write, reads[2];
};

/// Zeros that cost nothing until they are touched: a buffer may have gigabytes.
template <class T>
class Sparse {
 public:
  Sparse() = default;
  ~Sparse() { reset(0); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  /// `count` zeros, whatever was there before.
  void reset(size_t count) {
    if (size_ != 0) munmap(data_, size_ * sizeof(T));
    data_ = count != 0 ? static_cast<T*>(map_pages(count * sizeof(T))) : nullptr;
    size_ = count;
  }
  void swap(Sparse& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tenfold::simt
