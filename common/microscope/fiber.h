#pragma once
// A stack that a CUDA thread runs on, and the two switches. Boost.Context does the work (it is the fastest there is);
// what is added is reuse, a guard page, and what AddressSanitizer must be told.

#include <boost/context/detail/fcontext.hpp>

#include <cstddef>
#include <cstdint>

namespace tenfold::simt {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 128 * 1024;

  /// `body(this)` is entered at the first resume() and never returns: it calls suspend() between its pieces of work.
  explicit Fiber(void (*body)(Fiber*));
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it suspends. Called by the scheduler.
  void resume();
  /// Back to the scheduler. Called on the fiber.
  void suspend();
  bool holds(uintptr_t address) const { return address - stack_ < kStackBytes; }

 private:
  static void enter(boost::context::detail::transfer_t from);
  void (*body_)(Fiber*);
  uintptr_t stack_ = 0;  // lowest usable address
  boost::context::detail::fcontext_t inside_ = nullptr, outside_ = nullptr;
  // For AddressSanitizer alone.
  [[maybe_unused]] void* fake_inside_ = nullptr;
  [[maybe_unused]] const void* outer_stack_ = nullptr;
  [[maybe_unused]] size_t outer_bytes_ = 0;
};

}  // namespace tenfold::simt
