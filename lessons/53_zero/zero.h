// installs as <tenfold/zero.h>
#pragma once
// ZeRO, stages 1, 2 and 3, on c10d's collectives: data parallel training in which each rank keeps a shard of the
// optimizer state (1), of the gradients, too (2), and of the parameters, too (3). Stage 3 is also known as fully
// sharded data parallel (FSDP). One source for CPU (Gloo) and GPU (NCCL); the process group decides. Source: S.
// Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020; Y. Zhao et al.,
// PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, VLDB 2023.

#include <torch/torch.h>

#include <ATen/OpMathType.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flat_unit.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "lessons/52_ddp/same_model.h"

namespace tenfold {

struct ZeroOptions {
  int stage = 3;
  // Of stage 3:
  /// Free a unit's parameters after its forward, and gather them for its backward. The last unit's stay: its backward
  /// is what comes next.
  bool reshard_after_forward = true;
  /// Gather the next unit while this one computes, and reduce the last one's gradients meanwhile (stage 2, too). It
  /// needs memory for up to three units more. Without it every collective is waited for.
  bool prefetch = true;
  bool keep_frozen = false;  ///< gather a frozen unit once: nobody changes it
  /// The type that parameters are gathered and computed in, kBFloat16 or kHalf: half the bytes of both gathers, and of
  /// what is whole. Shards, the sum of the gradients and the optimizer's state keep the parameters' own type. forward()
  /// casts what it is given; compute the loss in 32 bits. It is FSDP2's MixedPrecisionPolicy(param_dtype,
  /// reduce_dtype=torch.float32), and takes the place of autocast.
  std::optional<torch::ScalarType> gathered_as = std::nullopt;
};

/// Data parallel training with sharded model states. The model is divided into units, such as its blocks; each is
/// gathered, reduced and freed at once. The optimizer gets the shards instead of the parameters, and must treat each
/// value for itself and all values of a unit alike: SGD, Adam and AdamW do.
///
///   tenfold::ShardedDataParallel sharded(*model, {{"embedding"}, {"block0"}, {"block1"}, {"head"}}, group, {.stage =
///   3}); torch::optim::AdamW optimizer(sharded.shards(), 1e-3);
///   ...
///   sharded.zero_grad();
///   h = sharded.forward(0, x, [&](const auto& x) { return model->embedding(x); });  // unit by unit
///   ...
///   loss.backward();      // for each micro-batch
///   sharded.finish();     // once: the shards' .grad() is now the mean over the ranks
///   sharded.clip_gradients(1.0);
///   optimizer.step();
///   sharded.gather_updated();
///
/// Every rank must use every trainable parameter in every backward(), what is trainable stays so, and no parameter is
/// in two units, nor used in another unit's forward(): a head that is the embedding belongs into the embedding's unit.
/// Outside forward() and backward() a parameter of stage 3 has no memory. The module must outlive this object, and so
/// must the object every graph that forward() has made. After a backward() that threw make a new object on every rank.
///
/// On CUDA make this object on the stream that all calls and the optimizer run on: a unit's memory is freed and handed
/// out in its order, and the nodes that accumulate gradients, which this object makes and keeps, remember the stream
/// that was current when they were made. So for a captured CUDA graph make it on the stream of the capture
/// (capture_stream() of <tenfold/captured_step.h>): otherwise the capture fails in backward(). No run has captured it.
///
/// Under autocast each linear layer keeps its weight's 16-bit copy until its backward(), which releasing a unit does
/// not free: a rank then needs at least 2 bytes for each parameter, whatever the number of ranks. Set gathered_as and
/// compute without autocast; or checkpoint each unit's function, which keeps no copy.
class ShardedDataParallel {
 public:
  /// Names of submodules that make a unit, with all below them.
  using UnitNames = std::vector<std::string>;

  /// `group` is null for one rank. Gives every rank rank 0's parameters and buffers. Throws std::invalid_argument
  /// (c10::ValueError) for an unknown stage or type, when a parameter is in no unit or in two, and, on every rank, when
  /// the ranks' models differ in a parameter or buffer.
  ShardedDataParallel(const torch::nn::Module& module, const std::vector<UnitNames>& units, const GroupPointer& group,
                      ZeroOptions options = {})
      : group_(group), options_(options) {
    TORCH_CHECK_VALUE(options.stage >= 1 && options.stage <= 3, "ZeRO has stages 1 to 3, not ", options.stage);
    TORCH_CHECK_VALUE(!options.gathered_as || options.stage == 3, "stage ", options.stage,
                      " gathers no parameters for forward(): only stage 3 can gather them in a type of their own");
    const torch::ScalarType gathered_as = options.gathered_as.value_or(torch::kBFloat16);
    TORCH_CHECK_VALUE(gathered_as == torch::kBFloat16 || gathered_as == torch::kHalf,
                      "parameters cannot be gathered in ", gathered_as, "; choose kBFloat16 or kHalf");
    if (group) start_alike(module, *group);
    std::vector<std::vector<FlatUnit::Named>> members(units.size());
    std::unordered_map<const void*, std::string> seen;
    for (const auto& item : module.named_parameters()) {
      const auto [before, is_new] = seen.try_emplace(item.value().unsafeGetTensorImpl(), item.key());
      // Two names of one tensor in one unit are one parameter.
      if (!is_new && unit_of(before->second, units) == unit_of(item.key(), units)) continue;
      TORCH_CHECK_VALUE(is_new, "parameter ", item.key(), " is ", before->second,
                        " too: a tied parameter cannot be in two units");
      members[unit_of(item.key(), units)].emplace_back(item.key(), item.value());
    }
    for (size_t i = 0; i < units.size(); ++i)
      units_.push_back(
          std::make_unique<FlatUnit>(units[i].at(0), members[i], group, options.stage == 3, options.gathered_as));
    in_backward_.assign(units.size(), false);
    add_hooks();
  }
  ~ShardedDataParallel() {
    for (auto& [node, key] : hooks_) node->del_post_hook(key);
  }
  ShardedDataParallel(const ShardedDataParallel&) = delete;
  ShardedDataParallel& operator=(const ShardedDataParallel&) = delete;

  /// The trainable units' shards, for an optimizer: (shard_size(n, ranks)) each of a unit of n values.
  std::vector<torch::Tensor> shards() const {
    std::vector<torch::Tensor> shards;
    for (const auto& unit : units_) {
      if (unit->trainable()) shards.push_back(unit->shard());
    }
    return shards;
  }

  /// Runs a unit's part of the model, with its parameters there.
  template <class Function>
  torch::Tensor forward(size_t index, const torch::Tensor& input, const Function& function) {
    finish_pending();  // of the micro-batch before
    if (options_.stage < 3) return function(input);
    FlatUnit& unit = *units_.at(index);
    unit.gather();
    if (options_.prefetch && index + 1 < units_.size()) units_[index + 1]->start_gather();
    const bool casts = options_.gathered_as && input.is_floating_point();
    torch::Tensor output = function(casts ? input.to(*options_.gathered_as) : input);
    const bool is_last = index + 1 == units_.size();
    if ((options_.reshard_after_forward && !is_last) || !output.requires_grad()) release(unit);
    in_backward_[index] = output.requires_grad();
    if (output.requires_grad()) output.register_hook([this, index](const torch::Tensor&) { before_backward(index); });
    return output;
  }

  /// Forgets the gradients. Call it before an update's first backward().
  void zero_grad() {
    for (const auto& unit : units_) unit->zero_grad();
  }

  /// After an update's last backward(): leaves in the shards' .grad() the mean over the ranks of the summed gradients.
  /// Throws c10::Error naming the parameters that got none, or in fewer backward() than others.
  void finish() {
    int64_t backwards = 1;
    for (const auto& unit : units_) backwards = std::max(backwards, unit->backwards());
    for (const auto& unit : units_) {
      const std::string missing = unit->trainable() ? unit->missing(backwards) : "";
      TORCH_CHECK(missing.empty(), "no gradient in this backward() for: ", missing,
                  "; every parameter must take part in the loss on every rank, or be frozen with all of its unit");
    }
    finish_pending();
    for (const auto& unit : units_) {
      release(*unit);  // a frozen one that nothing came before
      if (options_.stage > 1 || !unit->trainable()) continue;
      unit->start_reduce(/*in_place=*/true);
      unit->finish_reduce();
    }
  }

  /// Scales the gradients so that the norm of all of them, over all ranks, is at most `most`. Returns the norm before,
  /// a scalar that nobody has waited for. A rank's own shards would have a smaller one, and another on each rank.
  torch::Tensor clip_gradients(double most) {
    const torch::NoGradGuard no_grad;
    torch::Tensor squares;
    for (const torch::Tensor& shard : shards()) {
      // In 32 bits at least: the square of a norm of 256 is infinite in 16.
      const torch::Tensor square =
          at::linalg_vector_norm(shard.grad(), 2, {}, false, at::toOpMathType(shard.scalar_type())).square();
      squares = squares.defined() ? squares + square : square;
    }
    if (group_) {
      std::vector<torch::Tensor> tensors{squares};
      WorkPointer work = group_->allreduce(tensors);
      wait_for(work);
    }
    const torch::Tensor norm = squares.sqrt();
    const torch::Tensor scale = (most / (norm + 1e-6)).clamp_max(1);
    for (const torch::Tensor& shard : shards()) shard.mutable_grad().mul_(scale);
    return norm;
  }

  /// After the optimizer's step: each rank gets what the others have updated. In stage 3 the next forward() does it.
  void gather_updated() {
    if (options_.stage == 3) return;
    for (const auto& unit : units_) {
      if (unit->trainable()) unit->gather_again();
    }
  }

  /// The whole parameters and gradients by name, copied; a gradient is undefined where there is none. For looking at
  /// them: a rank needs the memory of both. Every rank must call it.
  struct Whole {
    torch::OrderedDict<std::string, torch::Tensor> parameters, gradients;
  };
  Whole whole() const {
    Whole all;
    for (const auto& unit : units_) {
      for (auto& [name, value] : unit->whole_of(unit->shard())) all.parameters.insert(name, value);
      const torch::Tensor& gradient = unit->shard().grad();
      for (auto& [name, value] : unit->whole_of(gradient.defined() ? gradient : unit->shard()))
        all.gradients.insert(name, gradient.defined() ? value : torch::Tensor());
    }
    return all;
  }

  const std::vector<std::unique_ptr<FlatUnit>>& units() const { return units_; }

 private:
  /// Ranks whose models differ would hang in the first broadcast. Parameters get rank 0's values unit by unit.
  static void start_alike(const torch::nn::Module& module, c10d::ProcessGroup& group) {
    std::vector<torch::Tensor> buffers = module.buffers();
    std::erase_if(buffers, [](const torch::Tensor& buffer) { return !buffer.defined(); });
    const std::vector<torch::Tensor> parameters = module.parameters();
    TORCH_CHECK_VALUE(!parameters.empty(), "the module has no parameters");
    require_same_model(module, /*objection=*/"", parameters[0].device(), group);
    broadcast_from_rank_0(buffers, group);
  }

  static size_t unit_of(const std::string& name, const std::vector<UnitNames>& units) {
    size_t found = units.size();
    for (size_t i = 0; i < units.size(); ++i) {
      for (const std::string& prefix : units[i]) {
        if (!name.starts_with(prefix + ".")) continue;
        TORCH_CHECK_VALUE(found == units.size(), "parameter ", name, " is in two units");
        found = i;
      }
    }
    TORCH_CHECK_VALUE(found < units.size(), "parameter ", name, " is in no unit");
    return found;
  }

  // As in ddp.h: the graph's node that writes .grad takes hooks that run when it is complete.
  void add_hooks() {
    using Gradients = torch::autograd::variable_list;
    for (const auto& unit : units_) {
      for (size_t i = 0; unit->trainable() && i < unit->size(); ++i) {
        auto node = torch::autograd::impl::grad_accumulator(unit->parameter(i));
        const auto key = node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, of = unit.get(), i](const Gradients& outputs, const Gradients&) {
              if (of->take_gradient(i)) after_backward(*of);
              return outputs;
            }));
        hooks_.emplace_back(std::move(node), key);
      }
    }
  }

  void before_backward(size_t index) {
    // The next unit has done its backward. A trainable one was released with its last gradient.
    if (index + 1 < units_.size() && !units_[index + 1]->trainable()) release(*units_[index + 1]);
    // What was reduced next to a unit's backward is done with when another one's begins; a frozen unit reduces nothing.
    const FlatUnit* const last = index + 1 < units_.size() ? units_[index + 1].get() : nullptr;
    if (pending_ != last) finish_pending();
    units_[index]->gather();
    if (options_.prefetch && index > 0 && in_backward_[index - 1]) units_[index - 1]->start_gather();
  }

  /// All gradients of the unit are there: nobody needs its parameters any more, and each rank needs its shard's alone.
  void after_backward(FlatUnit& unit) {
    release(unit);
    if (options_.stage < 2) return;  // finish() reduces once for all micro-batches
    finish_pending();
    unit.start_reduce(/*in_place=*/false);
    if (options_.prefetch) {
      pending_ = &unit;  // the next unit computes meanwhile
    } else {
      unit.finish_reduce();
    }
  }

  void finish_pending() {
    if (pending_ != nullptr) std::exchange(pending_, nullptr)->finish_reduce();
  }

  void release(FlatUnit& unit) {
    if (unit.trainable() || !options_.keep_frozen) unit.release();
  }

  GroupPointer group_;
  ZeroOptions options_;
  std::vector<std::unique_ptr<FlatUnit>> units_;
  std::vector<bool> in_backward_;  // units that backward() will come to
  FlatUnit* pending_ = nullptr;    // the one that is being reduced
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;
};

}  // namespace tenfold
