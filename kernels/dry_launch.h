#pragma once
// A kernel's launch on a card that is not there (./tenfold dry), whose body the CPU can run. Without the stand-ins, and
// on a real GPU, it does nothing; so it needs none of them.

#include <dlfcn.h>

namespace tenfold::fused {

/// Around the launch of a kernel. On a dry card with arithmetic the launch is answered for, and what the stream was
/// handed before is done, which is late enough for the body.
class DryLaunch {
 public:
  /// `stream` is the cudaStream_t that is launched on.
  explicit DryLaunch(void* stream) {
    static const auto begin = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_DEFAULT, "tenfold_dry_begin_body"));
    wants_body_ = begin != nullptr && begin(stream) != 0;
  }
  ~DryLaunch() {
    static const auto end = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "tenfold_dry_end_body"));
    if (wants_body_) end();
  }
  DryLaunch(const DryLaunch&) = delete;
  DryLaunch& operator=(const DryLaunch&) = delete;
  /// Whether the body is to be run now, behind the launch. Not while a graph is captured: then nobody computes it, and
  /// the kernel is named.
  bool wants_body() const { return wants_body_; }

 private:
  bool wants_body_ = false;
};

}  // namespace tenfold::fused
