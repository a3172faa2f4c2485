#pragma once
// The microscope's device: runs a CUDA kernel's unchanged source on the CPU and counts what its memory system would do.
// docs/microscope.md says what is modelled and what is not.

#include "common/microscope/report.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tenfold::simt {

struct Options {
  bool count = true;  ///< sectors, wavefronts, examples
  bool lines =
      false;  ///< executions of every line: Report::kernels; for kernels compiled with -fsanitize-coverage=trace-pc
  bool reuse = false;         ///< what caches would see: KernelCounts::touches, reads_again
  int64_t sample = 0;         ///< 0: every block of a launch runs; else at most so many, spread over the grid
  int multiprocessors = 132;  ///< that persistent kernels make their grid for: those of an H100 SXM
  bool races = true;          ///< happens-before check: slower, and up to twelve times the buffers' memory
};

class Device;

/// Memory that kernels may touch, like cudaMalloc's: 256-byte aligned, with forbidden bytes around it. It begins as
/// 0xff bytes, NaN in every floating-point type, so that a result that nobody wrote cannot look right.
template <class T>
class Buffer {
 public:
  T* data() const { return data_; }
  int64_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  friend class Device;
  Buffer(std::shared_ptr<void> owner, T* data, int64_t size) : owner_(std::move(owner)), data_(data), size_(size) {}
  std::shared_ptr<void> owner_;
  T* data_;
  int64_t size_;
};

class Device {
 public:
  explicit Device(Options options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Memory for `count` values, named in reports. Lives as long as the buffer; the device must live longer.
  template <class T>
  Buffer<T> buffer(const std::string& name, int64_t count) {
    auto owner = allocate(name, static_cast<size_t>(count) * sizeof(T), sizeof(T));
    T* data = static_cast<T*>(owner.get());
    return Buffer<T>(std::move(owner), data, count);
  }
  /// Lets kernels touch memory that somebody else owns, such as a tensor's, until the returned handle goes.
  std::shared_ptr<void> adopt(const std::string& name, void* data, size_t bytes, size_t element_bytes);

  /// All that was launched since construction or reset().
  Report report() const;
  void reset();

  struct State;  // the engine's

 private:
  friend struct Engine;
  std::shared_ptr<void> allocate(const std::string& name, size_t bytes, size_t element_bytes);
  std::unique_ptr<State> state_;
};

/// What launchers take where CUDA's take a cudaStream_t.
using Stream = Device*;

}  // namespace tenfold::simt
