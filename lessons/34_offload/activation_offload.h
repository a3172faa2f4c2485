// installs as <tenfold/activation_offload.h>
#pragma once
// Activation offloading: what a block saves for backward() waits in the host's memory. While a block computes forwards,
// the block before it leaves; while a block computes backwards, the block before it comes back.

#include <torch/torch.h>

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lessons/34_offload/host_pool.h"
#include "lessons/34_offload/saved_tensor_hooks.h"

namespace tenfold {

/// The bytes of a storage as a tensor of uint8, with a version counter of its own.
inline torch::Tensor bytes_of(const c10::Storage& storage) {
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  torch::Tensor all = torch::empty({0}, torch::dtype(torch::kByte).device(storage.device()));
  return all.set_(storage, 0, {bytes}, {1});
}

/// Copies: CopyStream or CopyThread of lesson 12's copy_streams.h; one stream for both directions. For one model on one
/// compute stream. Must outlive the graphs of its blocks.
template <class Copies>
class ActivationOffload {
  using Tensor = torch::Tensor;
  using Event = typename Copies::Event;

 public:
  /// `parameters` stay on the device whoever saves them, as do storages of fewer than `least_bytes`. `waits = false` is
  /// a mistake: backward() waits for what comes back when it has done with it.
  ActivationOffload(Copies& copies, std::shared_ptr<HostPool> pool, const std::vector<Tensor>& parameters,
                    int64_t least_bytes, bool waits = true)
      : copies_(copies), pool_(std::move(pool)), least_bytes_(least_bytes), waits_(waits) {
    for (const Tensor& parameter : parameters) parameters_.insert(parameter.storage().unsafeGetStorageImpl());
  }

  /// Runs a block of the model, blocks in their order. What it saves leaves the device, unless it `stays`: the last
  /// block's backward follows at once. Throws c10::Error when this block or the next one changes what it has saved.
  template <class Run>
  Tensor block(const Run& run, const Tensor& x, bool stays = false) {
    auto block = std::make_shared<Block>();
    block->before = last_;
    block->copies = &copies_;
    Tensor y;
    {
      const SavedTensorHooks hooks([&](const Tensor& tensor) { return pack(block, tensor, stays); });
      y = run(x);
    }
    send(*block);
    if (last_) let_go(*last_);  // two blocks at a time: one computes, one leaves
    last_ = std::move(block);
    return y;
  }

  /// Until the end of this forward pass the tensor's storage stays on the device, whoever saves it: a weight's 16-bit
  /// copy under autocast, which lives through the step anyway.
  void keep(const Tensor& tensor) { kept_.insert(tensor.storage().unsafeGetStorageImpl()); }

  /// Behind the last block.
  void end_of_forward() {
    if (last_) let_go(*last_);
    last_ = nullptr;
    kept_.clear();
  }

  /// Over all blocks so far.
  int64_t bytes_to_host() const { return bytes_to_host_; }
  int64_t bytes_to_device() const { return bytes_to_device_; }

 private:
  /// A storage that left. Views of it that autograd saved share it.
  struct Saved {
    Tensor source;  // as it was saved first; until its copy has left
    uint32_t version = 0;
    Tensor host, back;  // (bytes) of uint8
    std::shared_ptr<HostPool> pool;
    ~Saved() { pool->give_back(host); }
  };

  struct Block {
    std::shared_ptr<Block> before;  // whose backward comes next
    std::map<c10::StorageImpl*, std::shared_ptr<Saved>> leaving;
    std::vector<std::weak_ptr<Saved>> away;
    std::vector<std::shared_ptr<Saved>> coming;  // must not be freed before the copies have arrived
    Event left, arrived;
    bool asked_for = false, is_here = false;
    Copies* copies = nullptr;
    ~Block() {
      if (!coming.empty()) copies->compute_waits_for(arrived);  // nobody has waited
    }
  };

  bool leaves(const Tensor& tensor) const {
    return tensor.has_storage() && tensor.device() == copies_.device() &&
           static_cast<int64_t>(tensor.storage().nbytes()) >= least_bytes_ &&
           !parameters_.contains(tensor.storage().unsafeGetStorageImpl()) &&
           !kept_.contains(tensor.storage().unsafeGetStorageImpl());
  }

  Unpack pack(const std::shared_ptr<Block>& block, const Tensor& tensor, bool stays) {
    if (stays || !leaves(tensor)) {
      return [this, block, kept = tensor.detach()] {
        begin_backward(*block);
        return kept;
      };
    }
    std::shared_ptr<Saved>& saved = block->leaving[tensor.storage().unsafeGetStorageImpl()];
    if (!saved) {
      saved = std::make_shared<Saved>();
      saved->source = tensor.detach();
      saved->version = tensor._version();
      saved->host = pool_->take(static_cast<int64_t>(tensor.storage().nbytes()));
      saved->pool = pool_;
    }
    return [this, block, saved, options = tensor.options(), offset = tensor.storage_offset(),
            sizes = tensor.sizes().vec(), strides = tensor.strides().vec()] {
      begin_backward(*block);
      return torch::empty({0}, options).set_(saved->back.storage(), offset, sizes, strides);
    };
  }

  /// What autograd checks when no hooks are there.
  static void require_unchanged(const Block& block) {
    for (const auto& [storage, saved] : block.leaving) {
      TORCH_CHECK(saved->source._version() == saved->version,
                  "ActivationOffload: what a block had saved for backward() was changed in place");
    }
  }

  /// Queues the copies to the host, behind the block's own work.
  void send(Block& block) {
    if (block.leaving.empty()) return;
    Event computed;
    copies_.mark_compute(computed);
    copies_.copies_wait_for(computed);
    require_unchanged(block);
    for (const auto& [storage, saved] : block.leaving) {
      copies_.copy(saved->host, bytes_of(saved->source.storage()));
      bytes_to_host_ += saved->host.numel();
    }
    copies_.mark_copies(block.left);
  }

  /// Frees the device's memory: from here on, in the order of the compute stream, others may have it.
  void let_go(Block& block) {
    if (block.leaving.empty()) return;
    require_unchanged(block);  // the next block ran while the copies were on their way
    copies_.compute_waits_for(block.left);
    for (const auto& [storage, saved] : block.leaving) {
      saved->source = Tensor();
      block.away.push_back(saved);
    }
    block.leaving.clear();
  }

  /// Queues the copies back. Their room was free in the compute stream's order, so they begin behind what is queued
  /// there.
  void fetch(Block& block) {
    if (std::exchange(block.asked_for, true)) return;
    for (const auto& each : block.away) {
      if (auto saved = each.lock()) block.coming.push_back(std::move(saved));
    }
    if (block.coming.empty()) return;
    for (const auto& saved : block.coming)
      saved->back = torch::empty({saved->host.numel()}, torch::dtype(torch::kByte).device(copies_.device()));
    Event room;
    copies_.mark_compute(room);
    copies_.copies_wait_for(room);
    for (const auto& saved : block.coming) {
      copies_.copy(saved->back, saved->host);
      bytes_to_device_ += saved->host.numel();
    }
    copies_.mark_copies(block.arrived);
  }

  /// With the first tensor that backward() asks a block for, the block before it is sent for.
  void begin_backward(Block& block) {
    if (std::exchange(block.is_here, true)) return;
    fetch(block);
    if (waits_) {
      copies_.compute_waits_for(block.arrived);
      block.coming.clear();
    }
    if (block.before) fetch(*block.before);
  }

  Copies& copies_;
  std::shared_ptr<HostPool> pool_;
  int64_t least_bytes_;
  bool waits_;
  std::unordered_set<c10::StorageImpl*> parameters_, kept_;
  std::shared_ptr<Block> last_;
  int64_t bytes_to_host_ = 0, bytes_to_device_ = 0;
};

}  // namespace tenfold
