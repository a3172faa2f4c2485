// installs as <tenfold/autocast.h>
#pragma once
// Autocast as a scope. LibTorch has the switches, but no guard that turns them back.

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

namespace tenfold {

/// While it lives, operators on `device` that gain from it (matmuls, convolutions, attention) take 16-bit
/// copies of their 32-bit inputs, and those that would lose (losses, norms) stay in 32 bits; which is which is
/// PyTorch's list. Parameters keep their type, so gradients arrive in it. A weight's copy is made once and kept until
/// the outermost scope ends. Wrap the forward pass and the loss only: backward() repeats each operator's type by
/// itself. Scopes nest, one with enabled = false switches autocast off inside. Per thread, like autocast itself. Throws
/// c10::ValueError when enabled with a type other than torch::kBFloat16 and torch::kHalf. Source: Micikevicius et al.,
/// Mixed Precision Training, 2018; the same semantics as Python's torch.autocast.
class Autocast {
 public:
  Autocast(c10::DeviceType device, at::ScalarType dtype, bool enabled = true,
           bool cache = at::autocast::is_autocast_cache_enabled())
      : device_(device),
        dtype_before_(at::autocast::get_autocast_dtype(device)),
        enabled_before_(at::autocast::is_autocast_enabled(device)),
        cache_before_(at::autocast::is_autocast_cache_enabled()) {
    TORCH_CHECK_VALUE(!enabled || dtype == torch::kBFloat16 || dtype == torch::kHalf, "Autocast: type ", dtype,
                      " is not supported; use torch::kBFloat16 or torch::kHalf");
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_cache_enabled(cache);
    at::autocast::increment_nesting();
  }

  ~Autocast() {
    // A copy that outlived its scope would hide the optimizer's update of the weight.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(cache_before_);
    at::autocast::set_autocast_enabled(device_, enabled_before_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
  }

  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  at::ScalarType dtype_before_;
  bool enabled_before_, cache_before_;
};

/// `x` as autocast passes it to an operator that gains from 16 bits: where autocast is on for x's device, a 16-bit copy
/// of an x of another type, with its history and from the same cache; else x itself, as are integers and 64 bits. For
/// operators that are not in PyTorch's list, such as an autograd Function of one's own: cast before it, since
/// backward(), called behind the scope, runs without autocast, and a matmul cannot take two types.
inline torch::Tensor autocast_input(const torch::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return x;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device);
}

}  // namespace tenfold
