#pragma once
// A kernel's launch on a card that is not there (./tenfold dry), whose body the CPU can run. Without the stand-ins, and
// on a real GPU, it does nothing; so it needs none of them.

#include <dlfcn.h>

namespace tenfold::fused {

/// What a kernel must do at least, for a modelled time.
struct KernelDemand {
  double bytes = 0;           ///< through the card's memory
  double flops = 0;           ///< of matrix products; other arithmetic is hidden by bytes
  bool sixteen_bits = false;  ///< in tensor cores, where the card has some for both 16-bit types
};

/// Around the launch of a kernel. On a dry card with arithmetic the launch is answered for, and what the stream was
/// handed before is done, which is late enough for the body. On one with times the launch lasts what its demand says.
class DryLaunch {
 public:
  /// `stream` is the cudaStream_t that is launched on.
  DryLaunch(void* stream, const KernelDemand& demand) : demand_(demand) {
    static const auto begin = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_DEFAULT, "tenfold_dry_begin_body"));
    wants_body_ = begin != nullptr && begin(stream) != 0;
    static const auto price = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "tenfold_dry_begin_price"));
    if (price != nullptr) pricing_ = price();
  }
  ~DryLaunch() {
    static const auto end = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "tenfold_dry_end_body"));
    if (wants_body_) end();
    static const auto settle =
        reinterpret_cast<void (*)(void*, double, double, int)>(dlsym(RTLD_DEFAULT, "tenfold_dry_end_price"));
    if (pricing_ != nullptr) settle(pricing_, demand_.bytes, demand_.flops, demand_.sixteen_bits ? 1 : 0);
  }
  DryLaunch(const DryLaunch&) = delete;
  DryLaunch& operator=(const DryLaunch&) = delete;
  /// Whether the body is to be run now, behind the launch. Not while a graph is captured: then nobody computes it, and
  /// the kernel is named. Nor within an operator of the dispatcher, which is computed on the CPU as a whole.
  bool wants_body() const { return wants_body_; }

 private:
  const KernelDemand demand_;
  bool wants_body_ = false;
  void* pricing_ = nullptr;
};

}  // namespace tenfold::fused
