#pragma once
// The training loop of lesson 90, the same for pictures and texts: what a lever changes in it stands here once.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/models/host_batch.h"
#include "fused_sgd.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/52_ddp/ddp.h"
#include "lessons/53_zero/zero.h"
#include "levers.h"
#include "settings.h"

namespace tenfold::inline lesson_90 {

/// The mean loss of some rows of the held-out data, (n, ...) each.
using LossOf = std::function<torch::Tensor(const torch::Tensor& inputs, const torch::Tensor& targets)>;

/// What validation looks at, on the trial's device.
struct HeldOut {
  torch::Tensor inputs, targets;  ///< (N, ...) each
  LossOf loss;
};

class Trainer {
 public:
  Trainer(const Trial& trial, const Levers& levers, std::shared_ptr<torch::nn::Module> model, double learning_rate,
          HeldOut held_out)
      : levers_(levers),
        device_(trial.device),
        rank_(levers.ranks ? trial.rank : 0),
        rows_(part_of_rank(trial, kValidated, levers.ranks)),
        stride_(trial.get(kValidated)),
        model_(std::move(model)),
        held_out_(std::move(held_out)) {
    TORCH_CHECK_VALUE(stride_ <= held_out_.inputs.size(0), kValidated.name, "=", stride_, ": only ",
                      held_out_.inputs.size(0), " are held out");
    if (levers.ranks && trial.group) {
      if (levers.sharded) {
        sharded_.emplace(*model_, layers_of(*model_), trial.group, ZeroOptions{.stage = 2, .prefetch = true});
      } else {
        ddp_.emplace(*model_, trial.group);
      }
    }
    const std::vector<torch::Tensor> updated = sharded_ ? sharded_->shards() : model_->parameters();
    if (levers.fused) {
      fused_.emplace(updated, learning_rate, kMomentum);
    } else {
      loop_.emplace(updated, torch::optim::SGDOptions(learning_rate).momentum(kMomentum));
    }
  }

  /// One update; `loss_of_batch` runs the model forward. Returns the loss.
  torch::Tensor update(const std::function<torch::Tensor()>& loss_of_batch) {
    for (torch::Tensor& parameter : model_->parameters()) parameter.mutable_grad() = torch::Tensor();
    if (sharded_) sharded_->zero_grad();
    torch::Tensor loss;
    {
      const Autocast scope(device_.type(), torch::kBFloat16, levers_.sixteen_bits);
      loss = loss_of_batch();
    }
    loss.backward();
    if (ddp_) ddp_->finish();
    if (sharded_) sharded_->finish();
    {
      RECORD_USER_SCOPE("optimizer");
      if (fused_) {
        fused_->step();
      } else {
        loop_->step();
      }
    }
    if (sharded_) sharded_->gather_updated();
    log(training_, loss.detach());
    return loss.detach();
  }

  /// The next rows of the held-out data: as many as come to one update when all of them are validated now and then.
  void validate_some() {
    RECORD_USER_SCOPE("validation");
    const int64_t from = at_ + rank_ * rows_;
    at_ = (at_ + stride_) % (held_out_.inputs.size(0) - stride_ + 1);
    log(validation_, validation_loss(from, from + rows_));
  }

  /// Mean loss over rows [from, to) of the held-out data. These models have no layer with a mode: one with dropout or
  /// batch norm needs eval() before and train() after it (lesson 29).
  torch::Tensor validation_loss(int64_t from, int64_t to) const {
    std::optional<torch::NoGradGuard> no_graph;
    if (levers_.without_graph) no_graph.emplace();
    const Autocast scope(device_.type(), torch::kBFloat16, levers_.sixteen_bits);
    return held_out_.loss(held_out_.inputs.slice(0, from, to), held_out_.targets.slice(0, from, to)).detach();
  }

  int64_t held_out() const { return held_out_.inputs.size(0); }
  Parameters parameters() const { return model_->named_parameters(); }
  bool sharded() const { return sharded_.has_value(); }
  /// On every rank, for the agreement check: of sharded gradients each has a part.
  Gathered whole() const {
    auto of_all = sharded_->whole();
    return {std::move(of_all.parameters), std::move(of_all.gradients)};
  }

 private:
  /// Each layer of the model, to reduce its gradients while the layers before it compute theirs.
  static std::vector<ShardedDataParallel::UnitNames> layers_of(const torch::nn::Module& model) {
    std::vector<ShardedDataParallel::UnitNames> layers;
    for (const auto& layer : model.named_children()) layers.push_back({layer.key()});
    return layers;
  }

  static constexpr double kMomentum = 0.9;

  /// A sum of losses, to show now and then. Read at once, or left where it is.
  struct Logged {
    double read = 0;
    torch::Tensor left;
  };
  void log(Logged& sum, const torch::Tensor& loss) const {
    if (!levers_.without_waiting) {
      sum.read += loss.item<double>();  // the host waits for the device
    } else {
      sum.left = sum.left.defined() ? sum.left + loss : loss;
    }
  }

  Levers levers_;
  torch::Device device_;
  int64_t rank_, rows_, stride_, at_ = 0;
  std::shared_ptr<torch::nn::Module> model_;
  HeldOut held_out_;
  std::optional<DistributedDataParallel> ddp_;
  std::optional<ShardedDataParallel> sharded_;
  std::optional<torch::optim::SGD> loop_;
  std::optional<FusedSgd> fused_;
  Logged training_, validation_;
};

/// A rank that has nothing to do until there are several.
inline bool is_idle(const Trial& trial, const Levers& levers) { return !levers.ranks && trial.rank != 0; }

/// For the agreement check, where only rank 0 trains: its parameters and gradients, on every rank.
inline Gathered of_rank_0(const Parameters& parameters, c10d::ProcessGroup& group) {
  Gathered whole;
  torch::Tensor trained = torch::zeros({1});
  for (const auto& parameter : parameters) trained += static_cast<int64_t>(parameter.value().grad().defined());
  std::vector<torch::Tensor> sent = {trained};
  broadcast_from_rank_0(sent, group);
  for (const auto& parameter : parameters) {
    const torch::Tensor own = parameter.value().grad();
    std::vector<torch::Tensor> of = {parameter.value().detach().clone()};
    if (trained.item<float>() > 0) of.push_back(own.defined() ? own.clone() : torch::zeros_like(of[0]));
    broadcast_from_rank_0(of, group);
    whole.parameters.insert(parameter.key(), of[0]);
    whole.gradients.insert(parameter.key(), of.size() > 1 ? of[1] : torch::Tensor());
  }
  return whole;
}

/// A step of the harness: one update, and its share of validation.
template <class Training>
Step training_step(const Trial& trial, const std::shared_ptr<Training>& work, int64_t items) {
  const auto update = [work, idle = is_idle(trial, work->levers)] {
    if (idle) return torch::Tensor();
    torch::Tensor loss = work->update();
    work->trainer.validate_some();
    return loss;
  };
  Step step{.items = items, .parameters = work->trainer.parameters(), .update = update};
  if (!work->levers.ranks && trial.group)
    step.gather = [parameters = step.parameters, group = trial.group] { return of_rank_0(parameters, *group); };
  if (work->trainer.sharded()) step.gather = [work] { return work->trainer.whole(); };
  return step;
}

}  // namespace tenfold::inline lesson_90
