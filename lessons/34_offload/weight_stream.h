// installs as <tenfold/weight_stream.h>
#pragma once
// Parameters on the host: a block's weights are on the device only while it computes, and while the block before it in
// that direction does.

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace tenfold {

/// Copies: CopyStream or CopyThread of lesson 12's copy_streams.h. The parameters stay the same tensors; only their
/// storages come and go. Nobody may read them while they are away.
template <class Copies>
class WeightStream {
  using Tensor = torch::Tensor;
  using Event = typename Copies::Event;

 public:
  struct Weight {
    Tensor parameter, host;  ///< on the device, and its values on the host (pinned for a GPU)
  };

  /// The weights of each block. Frees them on the device: their values are on the host.
  WeightStream(Copies& copies, std::vector<std::vector<Weight>> blocks) : copies_(copies) {
    for (auto& weights : blocks) blocks_.push_back({.weights = std::move(weights)});
    for (Block& block : blocks_) {
      block.is_here = true;
      free(block);
    }
  }

  /// Before block `i` computes forwards, and behind it.
  void before_forward(size_t i) {
    need(blocks_[i]);
    if (i + 1 < blocks_.size()) fetch(blocks_[i + 1]);
  }
  void after_forward(size_t i) {
    if (i + 1 < blocks_.size()) free(blocks_[i]);  // the last one computes backwards next
  }

  /// When the gradient of block i's output is there: the block behind it is done, and block i is next.
  void before_backward(size_t i) {
    if (i + 1 < blocks_.size()) free(blocks_[i + 1]);
    need(blocks_[i]);
    if (i > 0) fetch(blocks_[i - 1]);
  }
  void after_backward() { free(blocks_.front()); }

  /// Over all blocks so far.
  int64_t bytes_to_device() const { return bytes_to_device_; }

 private:
  struct Block {
    std::vector<Weight> weights;
    Event arrived = {};
    bool is_here = false;
  };

  /// Makes room, and queues the copies behind what the compute stream has queued: the room was free in its order.
  void fetch(Block& block) {
    if (std::exchange(block.is_here, true)) return;
    for (const Weight& weight : block.weights) {
      const Tensor made = torch::empty(weight.host.sizes(), weight.host.options().device(copies_.device()));
      const c10::Storage& room = made.storage();
      const c10::Storage& storage = weight.parameter.storage();
      storage.set_nbytes(room.nbytes());
      storage.set_data_ptr_noswap(room.set_data_ptr(c10::DataPtr(nullptr, storage.device())));
    }
    Event queued;
    copies_.mark_compute(queued);
    copies_.copies_wait_for(queued);
    for (const Weight& weight : block.weights) {
      // variable_data() has a version of its own: autograd must not take the copy for a change.
      copies_.copy(weight.parameter.variable_data(), weight.host);
      bytes_to_device_ += static_cast<int64_t>(weight.host.nbytes());
    }
    copies_.mark_copies(block.arrived);
  }

  void need(Block& block) {
    fetch(block);
    copies_.compute_waits_for(block.arrived);
  }

  /// Others may have the memory, in the order of the compute stream.
  static void free(Block& block) {
    if (!std::exchange(block.is_here, false)) return;
    for (const Weight& weight : block.weights) {
      const c10::Storage& storage = weight.parameter.storage();
      storage.set_data_ptr_noswap(c10::DataPtr(nullptr, storage.device()));
      storage.set_nbytes(size_t{0});
    }
  }

  Copies& copies_;
  std::vector<Block> blocks_;
  int64_t bytes_to_device_ = 0;
};

}  // namespace tenfold
