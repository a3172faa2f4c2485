#pragma once
// RecordFunction callbacks for as long as a scope lasts, also when the observed step throws.

#include <ATen/record_function.h>

#include <vector>

namespace tenfold {

/// Callbacks are plain function pointers, so they find their state through a pointer: `slot` points to `pass` while
/// this lives and is null afterwards. The callbacks are called on this thread (and on autograd's threads that it
/// starts).
template <class Pass>
class Observe {
 public:
  Observe(Pass*& slot, Pass& pass, const std::vector<at::RecordFunctionCallback>& callbacks) : slot_(slot) {
    slot_ = &pass;
    for (const auto& callback : callbacks) handles_.push_back(at::addThreadLocalCallback(callback));
  }
  ~Observe() {
    for (const auto handle : handles_) at::removeCallback(handle);
    slot_ = nullptr;
  }
  Observe(const Observe&) = delete;
  Observe& operator=(const Observe&) = delete;

 private:
  Pass*& slot_;
  std::vector<at::CallbackHandle> handles_;
};

}  // namespace tenfold
