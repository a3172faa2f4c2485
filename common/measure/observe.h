#pragma once
// RecordFunction callbacks for as long as a scope lasts, also when the observed step throws.

#include <ATen/record_function.h>

#include <mutex>
#include <vector>

namespace tenfold {

/// Callbacks are plain function pointers, so they find their state through a pointer: `slot` points to `pass` while
/// this lives and is null afterwards. The callbacks are called on this thread and on those that it hands work to:
/// autograd's, and the transport's of a process group, which may end a collective's region after the step that waited
/// for its result. Where that can be, callbacks hold `guard` as long as they use the slot.
template <class Pass>
class Observe {
 public:
  Observe(Pass*& slot, Pass& pass, const std::vector<at::RecordFunctionCallback>& callbacks,
          std::mutex* guard = nullptr)
      : slot_(slot), guard_(guard) {
    set(&pass);
    for (const auto& callback : callbacks) handles_.push_back(at::addThreadLocalCallback(callback));
  }
  ~Observe() {
    for (const auto handle : handles_) at::removeCallback(handle);
    set(nullptr);
  }
  Observe(const Observe&) = delete;
  Observe& operator=(const Observe&) = delete;

 private:
  void set(Pass* pass) {
    const auto lock = guard_ == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock(*guard_);
    slot_ = pass;
  }

  Pass*& slot_;
  std::mutex* guard_;
  std::vector<at::CallbackHandle> handles_;
};

}  // namespace tenfold
