// installs as <tenfold/selective_recomputation.h>
#pragma once
// Selective recomputation: backward() computes again what is cheap, layer norms and activation functions, and keeps
// what is not, the results of matmuls and of attention.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ScopeExit.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "lessons/34_offload/saved_tensor_hooks.h"

namespace tenfold {

/// Keeps no result of cheap() for backward(), which computes it again from its input, once for each operator that had
/// saved it. All else that the block saves is kept, and the graph is that of the plain block: losses and gradients are
/// the same bit for bit, and no matmul runs twice. For one thread at a time; must not outlive what its functions refer
/// to. Source: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022
/// (arXiv:2205.05198); PyTorch's twin is torch.utils.checkpoint.create_selective_checkpoint_contexts with MUST_SAVE for
/// matmuls and attention.
class SelectiveRecomputation {
  using Tensor = torch::Tensor;

 public:
  /// block(x) of any shapes, in which cheap() may be called.
  template <class BlockT>
  Tensor block(BlockT&& block, const Tensor& x) {
    const SavedTensorHooks hooks([this](const Tensor& saved) { return pack(saved); });
    inside_ = true;
    const auto leave = c10::make_scope_exit([this] {
      inside_ = false;
      recipes_.clear();
    });
    return block(x);
  }

  /// function(x): a new tensor that depends on x, on the autocast state and on nothing that changes until backward(),
  /// so no random numbers. x is kept, which costs nothing where the function saves it as well. Outside of block() it is
  /// function(x). backward() throws c10::Error when x was changed in place or the second run gives another kind of
  /// tensor.
  template <class FunctionT>
  Tensor cheap(const FunctionT& function, const Tensor& x) {
    Tensor result = function(x);
    if (!inside_ || !result.requires_grad()) return result;
    recipes_.insert_or_assign(result.storage().unsafeGetStorageImpl(),
                              Recipe{result.storage().getWeakStorageImpl(), again(function, x, result)});
    return result;
  }

 private:
  struct Recipe {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // while it is held, no other storage has this address
    Unpack run;
  };

  template <class FunctionT>
  static Unpack again(const FunctionT& function, const Tensor& x, const Tensor& result) {
    return [function, x = x.detach(), version = x._version(), kind = checkpoint_detail::OutputKind(result),
            autocast = checkpoint_detail::AutocastState{x.device().type()}] {
      RECORD_USER_SCOPE("recompute");
      TORCH_CHECK(x._version() == version,
                  "SelectiveRecomputation: the input of a cheap() function was changed in place");
      const torch::NoGradGuard no_gradients;
      const Autocast scope(autocast.device, autocast.dtype, autocast.enabled, autocast.cache);
      Tensor result = function(x);
      const checkpoint_detail::OutputKind now(result);
      TORCH_CHECK(now == kind, "SelectiveRecomputation: a cheap() function gave ", kind, " in forward and ", now,
                  " when backward() ran it again; it must do the same both times");
      return result;
    };
  }

  /// What autograd saves may be a view of the result: a linear layer saves (B T, D) of (B, T, D).
  Unpack pack(const Tensor& saved) const {
    if (saved.has_storage()) {
      const auto recipe = recipes_.find(saved.storage().unsafeGetStorageImpl());
      if (recipe != recipes_.end()) {
        return [run = recipe->second.run, sizes = saved.sizes().vec(), strides = saved.strides().vec(),
                offset = saved.storage_offset()] { return run().as_strided(sizes, strides, offset); };
      }
    }
    return [kept = saved.detach(), version = saved._version()] {
      TORCH_CHECK(kept._version() == version,
                  "SelectiveRecomputation: what a block had saved for backward() was changed in place");
      return kept;
    };
  }

  std::map<c10::StorageImpl*, Recipe> recipes_;  // of the block that runs
  bool inside_ = false;
};

}  // namespace tenfold
