// installs as <tenfold/ddp.h>
#pragma once
// Distributed data parallel training, written out on c10d's collectives. Every rank holds the whole model and computes
// the gradient of its own part of the batch; all-reduces average the gradients, so that every rank takes the same step.
// One source for CPU (Gloo) and GPU (NCCL); the process group decides.
// Source: S. Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020.

#include <torch/torch.h>

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gradient_buckets.h"

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
/// Every rank must use every parameter in every synchronised backward(). Buffers are broadcast once, not at each step.
/// On CUDA, run backward() and finish() on one stream. Dense gradients only. The module must outlive this object.
class DistributedDataParallel {
 public:
  /// Throws std::invalid_argument (c10::ValueError) when the ranks' models differ, nothing is trainable, or the
  /// parameters lie on several devices.
  DistributedDataParallel(const torch::nn::Module& module, c10::intrusive_ptr<c10d::ProcessGroup> group,
                          DdpOptions options = {})
      : group_(std::move(group)), scale_(torch::scalar_tensor(1.0 / group_->getSize(), torch::kDouble)) {
    std::vector<torch::Tensor> states = module.buffers();
    std::unordered_set<const void*> seen;  // a tied weight is one parameter, whatever its names
    for (const auto& item : module.named_parameters()) {
      if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
      states.push_back(item.value());
      if (!item.value().requires_grad()) continue;
      TORCH_CHECK_VALUE(parameters_.empty() || item.value().device() == parameters_[0].device(), "parameter ",
                        item.key(), " is on ", item.value().device(), ", others on ", parameters_[0].device(),
                        ": one device per rank");
      parameters_.push_back(item.value());
      names_.push_back(item.key());
    }
    TORCH_CHECK_VALUE(!parameters_.empty(), "the module has no trainable parameters");
    check_same_model();
    broadcast_from_rank_0(states, *group_);
    assignment_ = assign_buckets(parameters_, options);
    allocate_buckets();
    add_hooks();
  }
  ~DistributedDataParallel() {
    for (auto& [node, key] : hooks_) node->del_post_hook(key);
  }
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Waits for the all-reduces that backward() has started and leaves the averaged gradients in .grad(). Call it after
  /// every synchronised backward(); under NoSync it does nothing. Throws c10::Error naming the parameters that got no
  /// gradient; the other ranks, if they had theirs, then fail after the group's timeout.
  void finish() {
    if (!synchronise_) return;
    RECORD_USER_SCOPE("communication");
    torch::NoGradGuard no_grad;
    if (started_ < buckets_.size()) {
      std::string unused;
      for (size_t i = 0; i < parameters_.size(); ++i) {
        if (!ready_[i]) unused += (unused.empty() ? "" : ", ") + names_[i];
      }
      allocate_buckets();  // all-reduces may still write into the old ones
      TORCH_CHECK(
          false, "no gradient in this backward() for: ", unused,
          "; every parameter must take part in the loss on every rank, or be frozen with requires_grad_(false)");
    }
    for (Bucket& bucket : buckets_) {
      bucket.work->wait();
      bucket.work.reset();
      for (size_t slot = 0; slot < bucket.members.size(); ++slot)
        parameters_[bucket.members[slot]].mutable_grad().copy_(bucket.views[slot]);
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
    std::vector<torch::Tensor> views;  // of it, one for each member, in that parameter's shape
    size_t missing = 0;                // members whose gradient is not there yet
    c10::intrusive_ptr<c10d::Work> work;
  };

  // Ranks that disagree about names, shapes or types would hang in some later collective. All of them learn of it here.
  void check_same_model() {
    uint64_t hash = 14695981039346656037ULL;  // FNV-1a
    const auto add = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
    for (size_t i = 0; i < parameters_.size(); ++i) {
      for (const char c : names_[i]) add(static_cast<unsigned char>(c));
      for (const int64_t size : parameters_[i].sizes()) add(static_cast<uint64_t>(size));
      add(static_cast<uint64_t>(parameters_[i].scalar_type()));
    }
    const auto mine = static_cast<int64_t>(hash >> 2);
    std::vector<torch::Tensor> largest{torch::tensor({mine, -mine}, torch::kLong).to(parameters_[0].device())};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    group_->allreduce(largest, options)->wait();
    const torch::Tensor found = largest[0].cpu();
    TORCH_CHECK_VALUE(found[0].item<int64_t>() == -found[1].item<int64_t>(),
                      "the ranks' models differ in the names, shapes or types of their parameters");
  }

  void allocate_buckets() {
    buckets_.clear();
    places_.assign(parameters_.size(), {});
    for (const auto& members : assignment_) {
      Bucket bucket{.members = members};
      int64_t size = 0;
      for (const size_t i : members) size += parameters_[i].numel();
      bucket.flat = torch::empty({size}, parameters_[members[0]].options().requires_grad(false));
      int64_t at = 0;
      for (const size_t i : members) {
        places_[i] = {buckets_.size(), bucket.views.size()};
        bucket.views.push_back(bucket.flat.narrow(0, at, parameters_[i].numel()).view(parameters_[i].sizes()));
        at += parameters_[i].numel();
      }
      buckets_.push_back(std::move(bucket));
    }
    reset_counts();
  }

  void reset_counts() {
    for (Bucket& bucket : buckets_) bucket.missing = bucket.members.size();
    ready_.assign(parameters_.size(), false);
    started_ = 0;
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
    TORCH_CHECK(!ready_[index], "parameter ", names_[index],
                " got a second gradient: call finish() after each backward(), or accumulate under NoSync");
    const torch::Tensor gradient = parameters_[index].grad();
    TORCH_CHECK(gradient.layout() == torch::kStrided, "parameter ", names_[index],
                " has a sparse gradient: only dense ones can be averaged here");
    ready_[index] = true;
    const auto [which, slot] = places_[index];
    Bucket& bucket = buckets_[which];
    torch::NoGradGuard no_grad;
    // Divided on the way in: one pass, and a sum of sixteen-bit numbers cannot overflow.
    at::mul_out(bucket.views[slot], gradient, scale_);
    --bucket.missing;
    // Every rank must start the same collectives in the same order, but gradients may come in another: a bucket waits
    // for those before it.
    while (started_ < buckets_.size() && buckets_[started_].missing == 0) {
      Bucket& full = buckets_[started_++];
      full.work = start_all_reduce(full.flat, *group_);
      traffic_.payload_bytes += static_cast<int64_t>(full.flat.nbytes());
      ++traffic_.all_reduces;
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  torch::Tensor scale_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::string> names_;
  std::vector<std::vector<size_t>> assignment_;
  std::vector<Bucket> buckets_;
  std::vector<std::pair<size_t, size_t>> places_;  // of each parameter: its bucket and slot
  std::vector<bool> ready_;
  size_t started_ = 0;  // buckets whose all-reduce has begun
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
