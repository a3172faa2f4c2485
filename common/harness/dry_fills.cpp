// What is left out of a lesson on a dry GPU that computes nothing.
#include <ATen/ops/normal_native.h>
#include <ATen/ops/uniform_native.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "common/harness/dry_start.h"
#include "common/measure/dry.h"

namespace tenfold {
namespace {

constexpr size_t kDrawn = size_t{1} << 20;  // bytes: as a copy to the card that moves nothing (common/dry_gpu)

/// Says nothing: that kernels are replaced is what is wanted.
struct Silent : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

at::Tensor& normal(at::Tensor& self, double mean, double deviation, std::optional<at::Generator> generator) {
  return self.nbytes() < kDrawn ? at::native::normal_(self, mean, deviation, std::move(generator)) : self;
}

at::Tensor& uniform(at::Tensor& self, double from, double to, std::optional<at::Generator> generator) {
  return self.nbytes() < kDrawn ? at::native::uniform_(self, from, to, std::move(generator)) : self;
}

}  // namespace

void leave_weights_undrawn() {
  if (!memory_only()) return;
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  static torch::Library kernels(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  kernels.impl("normal_", &normal);
  kernels.impl("uniform_", &uniform);
}

}  // namespace tenfold
