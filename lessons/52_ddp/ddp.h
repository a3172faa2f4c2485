// installs as <tenfold/ddp.h>
#pragma once
// Distributed data parallel training, written out on c10d's collectives. Every rank holds the whole model and computes
// the gradient of its own part of the batch; all-reduces average the gradients, so that every rank takes the same step.
// One source for CPU (Gloo) and GPU (NCCL); the process group decides.
// Source: S. Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020.

#include <torch/torch.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backward_watch.h"
#include "gradient_buckets.h"
#include "same_model.h"
#include "used_parameters.h"

namespace tenfold {

/// The whole technique: all-reduces start inside backward(), as soon as a bucket's last gradient is there, and
/// overlap with the rest of it.
///
///   tenfold::DistributedDataParallel ddp(*model, group);  // every rank now has rank 0's parameters and buffers
///   ...
///   loss.backward();  // hooks fill buckets and start their all-reduces
///   ddp.finish();     // waits; .grad() is now the mean over the ranks
///   optimizer.step();
///
/// Every rank must use every parameter in every synchronised backward(), unless expect() says before it what the loss
/// uses. What is trainable stays so: after freezing, thawing or adding parameters make a new one. Buffers are broadcast
/// once, not at each step. Dense gradients only. The module must outlive this object.
///
/// On CUDA make this object, run backward() and finish() on one stream. The nodes that accumulate gradients remember
/// the stream that was current when they were made, and this object makes and keeps them. So for a captured CUDA graph
/// make it on the stream of the capture (capture_stream() of <tenfold/captured_step.h>): otherwise the capture fails in
/// backward(). No run has captured it yet. Without a graph another stream costs a wait for each parameter.
///
/// A parameter that one backward() reaches through two recomputed blocks (activation checkpointing) gets a gradient
/// from each, and the first may have been sent when the second comes: that throws. Run such a backward() under NoSync
/// and average_in_buckets() after it.
class DistributedDataParallel {
 public:
  /// Throws std::invalid_argument (c10::ValueError), on every rank, when the ranks' models differ in a parameter or
  /// buffer, or when on any rank nothing is trainable or the trainable parameters lie on several devices.
  DistributedDataParallel(const torch::nn::Module& module, c10::intrusive_ptr<c10d::ProcessGroup> group,
                          DdpOptions options = {})
      : module_(module), group_(std::move(group)), options_(options) {
    mean_over(group_->getSize());
    TORCH_CHECK_VALUE(!options.gradients_are_views || !options.sent_as,
                      "gradients that are views of what is sent have its type: choose one of the two options");
    std::vector<torch::Tensor> states;
    for (const torch::Tensor& buffer : module.buffers()) {
      if (buffer.defined()) states.push_back(buffer);
    }
    std::unordered_set<const void*> seen;  // a tied weight is one parameter, whatever its names
    std::string objection;
    for (const auto& item : module.named_parameters()) {
      if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
      states.push_back(item.value());
      if (!item.value().requires_grad()) continue;
      if (!parameters_.empty() && item.value().device() != parameters_[0].device()) {
        objection = c10::str("parameter ", item.key(), " is on ", item.value().device(), ", others on ",
                             parameters_[0].device(), ": one device per rank");
      }
      trainable_.insert(item.value().unsafeGetTensorImpl());
      parameters_.push_back(item.value());
      names_.push_back(item.key());
    }
    if (parameters_.empty()) objection = "the module has no trainable parameters";
    const std::vector<torch::Tensor>& any = parameters_.empty() ? states : parameters_;
    require_same_model(module, objection, any.empty() ? torch::Device(torch::kCPU) : any[0].device(), *group_);
    broadcast_from_rank_0(states, *group_);
    assignment_ = assign_buckets(parameters_, options_);
    allocate_buckets();
    add_hooks();
  }
  ~DistributedDataParallel() {
    for (auto& [node, key] : hooks_) node->del_post_hook(key);
  }
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Before a backward() in which this rank's `loss` does not use every parameter: those count as having no gradient
  /// here, whatever other ranks use. A parameter that no rank has used, and that had no .grad, then has none after
  /// finish(), so that the optimizer leaves it alone. Every rank must call it or none; it costs an all-reduce of a
  /// number for each parameter, and on a rank that leaves a parameter out finish() makes the host wait for the device.
  void expect(const torch::Tensor& loss) {
    if (!synchronise_) return;
    torch::NoGradGuard no_grad;
    const auto reached = parameters_in_graph(loss);
    const torch::Device device = parameters_[0].device();
    const torch::Tensor used = torch::empty({static_cast<int64_t>(parameters_.size())},
                                            torch::dtype(torch::kInt).pinned_memory(device.is_cuda()));
    leaves_out_ = false;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& gradient = parameters_[i].grad();  // of micro-batches before, under NoSync
      const bool in_graph = reached.contains(parameters_[i].unsafeGetTensorImpl());
      const bool is_used = in_graph || gradient.defined();
      used.mutable_data_ptr<int>()[i] = is_used ? 1 : 0;
      leaves_out_ = leaves_out_ || !is_used;
      if (!in_graph) put_ready(i, gradient);
    }
    used_ = used.to(device, /*non_blocking=*/true);
  }

  /// Instead of backward(), on a rank that has no batch left while others have: its gradients are zero, or what its
  /// micro-batches under NoSync have left. Where the others call expect(), call expect(torch::zeros({})) instead.
  void without_batch() {
    if (!synchronise_) return;
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) put_ready(i, parameters_[i].grad());
  }

  /// From the next backward() on .grad() becomes the ranks' sum over this number: the ranks, at first; those that have
  /// a batch, where some have none left.
  void mean_over(int64_t ranks) { scale_ = torch::scalar_tensor(1.0 / static_cast<double>(ranks), torch::kDouble); }

  /// Waits for the all-reduces that backward() has started and leaves the averaged gradients in .grad(). Call it after
  /// every synchronised backward(); under NoSync it does nothing. Throws c10::Error naming the parameters that got no
  /// gradient (the other ranks, if they had theirs, then fail after the group's timeout), or that were thawed or added
  /// since construction.
  void finish() {
    if (!synchronise_) return;
    RECORD_USER_SCOPE("communication");
    torch::NoGradGuard no_grad;
    if (started_ < buckets_.size()) refuse_incomplete();
    if (used_.defined()) start_all_reduce(used_, *group_)->wait();
    // What this rank has used is used: only a rank that left a parameter out has to know the others'.
    const torch::Tensor used = used_.defined() && leaves_out_ ? used_.cpu() : torch::Tensor();
    for (Bucket& bucket : buckets_) {
      bucket.work->wait();
      bucket.work.reset();
      for (size_t slot = 0; slot < bucket.members.size(); ++slot) {
        const size_t i = bucket.members[slot];
        if (used.defined() && used.const_data_ptr<int>()[i] == 0) {
          parameters_[i].mutable_grad().reset();
        } else if (options_.gradients_are_views) {
          parameters_[i].mutable_grad() = bucket.views[slot];
        } else if (parameters_[i].grad().defined()) {
          parameters_[i].mutable_grad().copy_(bucket.views[slot]);
        } else {
          parameters_[i].mutable_grad() = bucket.views[slot].to(parameters_[i].scalar_type(), false, /*copy=*/true);
        }
      }
    }
    reset_counts();
    refuse_thawed();
  }

  /// Instead of finish(), after a backward() that threw: throws away what was sent, so that the next backward() starts
  /// afresh; zero the gradients before it. Every rank must call it, since it sends what this one had not sent yet: the
  /// ranks' all-reduces stay in step. A rank that calls finish() instead gets NaN for what another had not computed.
  void reset() {
    if (!synchronise_) return;
    torch::NoGradGuard no_grad;
    while (started_ < buckets_.size()) {
      buckets_[started_].flat.fill_(std::numeric_limits<double>::quiet_NaN());
      start_next();
    }
    for (Bucket& bucket : buckets_) {
      bucket.work->wait();
      bucket.work.reset();
    }
    reset_counts();
  }

  /// All-reduces of gradients since construction; ring_bytes() of the payload is what this rank has sent.
  const Traffic& traffic() const { return traffic_; }

 private:
  friend class NoSync;
  struct Bucket {
    std::vector<size_t> members;
    torch::Tensor flat;                // what is sent
    std::vector<torch::Tensor> views;  // of it, one for each member, in that parameter's shape and strides
    size_t missing = 0;                // members whose gradient is not there yet
    c10::intrusive_ptr<c10d::Work> work;
  };

  void allocate_buckets() {
    // Below autograd, to which they are then no views: Optimizer::zero_grad() detaches gradients in place, which is
    // refused to views.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    buckets_.clear();
    places_.assign(parameters_.size(), {});
    for (const auto& members : assignment_) {
      Bucket bucket{.members = members};
      int64_t size = 0;
      for (const size_t i : members) size += parameters_[i].numel();
      const torch::TensorOptions like = parameters_[members[0]].options().requires_grad(false);
      // NOLINTNEXTLINE(bugprone-optional-value-conversion): one type is in the bucket, if any is asked for
      bucket.flat = torch::empty({size}, options_.sent_as ? like.dtype(*options_.sent_as) : like);
      int64_t at = 0;
      for (const size_t i : members) {
        places_[i] = {buckets_.size(), bucket.views.size()};
        bucket.views.push_back(shaped_as(parameters_[i], bucket.flat.narrow(0, at, parameters_[i].numel())));
        at += parameters_[i].numel();
      }
      buckets_.push_back(std::move(bucket));
    }
    reset_counts();
  }

  /// With the parameter's strides, too, where these leave no gaps: copies of channels_last gradients are then copies
  /// of memory, and fused optimizers want a gradient laid out as its parameter.
  static torch::Tensor shaped_as(const torch::Tensor& parameter, const torch::Tensor& part) {
    if (!parameter.is_non_overlapping_and_dense()) return part.view(parameter.sizes());
    return part.as_strided(parameter.sizes(), parameter.strides(), part.storage_offset());
  }

  void reset_counts() {
    for (Bucket& bucket : buckets_) bucket.missing = bucket.members.size();
    ready_.assign(parameters_.size(), false);
    started_ = 0;
    backward_.reset();
    used_.reset();
  }

  // Tensor::register_hook would run before .grad() is written. The graph's node that writes it takes hooks that run
  // afterwards; the tensor holds that node weakly, so it is kept here.
  void add_hooks() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      auto node = torch::autograd::impl::grad_accumulator(parameters_[i]);
      using Gradients = torch::autograd::variable_list;
      const auto key = node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [this, i](const Gradients& outputs, const Gradients&) {
            gradient_ready(i);
            return outputs;
          }));
      hooks_.emplace_back(std::move(node), key);
    }
  }

  void gradient_ready(size_t index) {
    if (!synchronise_) return;
    if (!backward_) backward_ = watch_backward();
    if (ready_[index] || *backward_ != Backward::running) refuse_second_gradient(index);
    const torch::Tensor gradient = parameters_[index].grad();
    TORCH_CHECK(!gradient.defined() || gradient.layout() == torch::kStrided, "parameter ", names_[index],
                " has a sparse gradient: only dense ones can be averaged here");
    put_ready(index, gradient);
    const auto [which, slot] = places_[index];
    // Here already, so that the gradient's own memory is free while backward() goes on.
    if (options_.gradients_are_views) parameters_[index].mutable_grad() = buckets_[which].views[slot];
  }

  /// Into its bucket, which is sent when all of it is there. Undefined, as a Function may leave it, is zero, as it is
  /// to PyTorch's Reducer.
  void put_ready(size_t index, const torch::Tensor& gradient) {
    ready_[index] = true;
    const auto [which, slot] = places_[index];
    Bucket& bucket = buckets_[which];
    torch::NoGradGuard no_grad;
    if (gradient.defined()) {
      // Divided on the way in: one pass, and a sum of sixteen-bit numbers cannot overflow.
      at::mul_out(bucket.views[slot], gradient, scale_);
    } else {
      bucket.views[slot].zero_();
    }
    --bucket.missing;
    // Every rank must start the same collectives in the same order, but gradients may come in another: a bucket waits
    // for those before it.
    while (started_ < buckets_.size() && buckets_[started_].missing == 0) start_next();
  }

  void start_next() {
    Bucket& full = buckets_[started_++];
    full.work = start_all_reduce(full.flat, *group_);
    traffic_.payload_bytes += static_cast<int64_t>(full.flat.nbytes());
    ++traffic_.all_reduces;
  }

  [[noreturn]] void refuse_second_gradient(size_t index) const {
    const Backward before = *backward_;
    TORCH_CHECK(before != Backward::threw, "the backward() before this one threw: call reset() on every rank after it");
    TORCH_CHECK(before != Backward::returned, "parameter ", names_[index],
                " got a second gradient: call finish() after each backward(), or accumulate under NoSync");
    TORCH_CHECK(false, "parameter ", names_[index],
                " got a second gradient in one backward(): more than one recomputed (checkpointed) block uses it, and "
                "the first gradient may have been sent; run backward() under NoSync, then average_in_buckets()");
  }

  [[noreturn]] void refuse_incomplete() {
    TORCH_CHECK(!backward_ || *backward_ != Backward::threw,
                "backward() threw: call reset() on every rank, not finish()");
    std::string unused, frozen;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      std::string& names = parameters_[i].requires_grad() ? unused : frozen;
      if (!ready_[i]) names += (names.empty() ? "" : ", ") + names_[i];
    }
    allocate_buckets();  // all-reduces may still write into the old ones
    TORCH_CHECK(frozen.empty(), "frozen since DistributedDataParallel was made: ", frozen, "; make a new one");
    TORCH_CHECK(
        false, "no gradient in this backward() for: ", unused,
        "; every parameter must take part in the loss on every rank, or be frozen with requires_grad_(false); or "
        "call expect(loss) before backward()");
  }

  // Each rank would train such a parameter alone.
  void refuse_thawed() const {
    std::string thawed;
    for (const auto& item : module_.named_parameters()) {
      if (item.value().requires_grad() && !trainable_.contains(item.value().unsafeGetTensorImpl()))
        thawed += (thawed.empty() ? "" : ", ") + item.key();
    }
    TORCH_CHECK(thawed.empty(), "thawed or added since DistributedDataParallel was made: ", thawed,
                "; make a new one, or the ranks train it apart");
  }

  const torch::nn::Module& module_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  DdpOptions options_;
  torch::Tensor scale_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::string> names_;
  std::unordered_set<const void*> trainable_;
  std::vector<std::vector<size_t>> assignment_;
  std::vector<Bucket> buckets_;
  std::vector<std::pair<size_t, size_t>> places_;  // of each parameter: its bucket and slot
  std::vector<bool> ready_;
  torch::Tensor used_;                               // by how many ranks each parameter is; where expect() was called
  bool leaves_out_ = false;                          // this rank, a parameter; where expect() was called
  size_t started_ = 0;                               // buckets whose all-reduce has begun
  std::shared_ptr<std::atomic<Backward>> backward_;  // the one that made what is ready
  bool synchronise_ = true;
  Traffic traffic_;
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;
};

/// While it lives, backward() only adds to the local .grad() and finish() does nothing: for all but the last
/// micro-batch of an accumulation. The next synchronised backward() sends what has been added up.
class NoSync {
 public:
  explicit NoSync(DistributedDataParallel& ddp) : synchronise_(ddp.synchronise_), before_(ddp.synchronise_) {
    synchronise_ = false;
  }
  ~NoSync() { synchronise_ = before_; }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  bool& synchronise_;
  bool before_;
};

}  // namespace tenfold
