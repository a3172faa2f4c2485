#pragma once
// What a rank of lesson 55 trains: some blocks of the GPT, the first rank with the embedding, the last with the head.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/gpt_batches.h"
#include "common/models/host_batch.h"
#include "common/models/momentum_sgd.h"
#include "pipeline.h"
#include "settings.h"
#include "weight_grad_store.h"

namespace tenfold::inline lesson_55 {

/// The whole model of one process. A tied head is the embedding's weight, and there is no other.
inline std::shared_ptr<GptTraining> whole_model(const Trial& trial) {
  if (!trial.get(kTied)) return std::make_shared<GptTraining>(trial);
  const auto head = [](GptImpl& model, const torch::Tensor& h) {
    return torch::linear(model.parts->norm(*model.norm, h), model.tokens->weight);
  };
  auto training = std::make_shared<GptTraining>(trial, GptParts{.head = head});
  training->model->unregister_module("head");
  training->model->head = nullptr;
  training->optimizer = sgd(training->model->parameters(), training->model->options.learning_rate);
  return training;
}

/// The batches that one process draws, in micro-batches: the same on every rank.
struct MicroBatches {
  explicit MicroBatches(const Trial& trial) : parts_(micro_batches_of(trial)), batches_(trial, gpt_options(trial)) {}

  void next() {
    const auto [all_ids, all_targets] = batches_.next();  // (B, T) each
    ids = all_ids.chunk(parts_);
    targets = all_targets.chunk(parts_);
  }

  std::vector<torch::Tensor> ids, targets;  // (B / micro-batches, T) each

 private:
  int parts_;
  Batches batches_;
};

/// Part of a GPT. Its parameters have the names that they have in the whole.
struct GptStage : torch::nn::Module {
  GptStage(const Gpt& whole, const BlockRange& which, bool is_first, bool is_last) {
    if (is_first) {
      tokens = register_module("tokens", whole->tokens);
      positions = register_module("positions", whole->positions);
    }
    for (int64_t i = which.begin; i < which.end; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), whole->blocks[static_cast<size_t>(i)]));
    if (is_last) {
      norm = register_module("norm", whole->norm);
      head = register_module("head", whole->head);
    }
  }

  /// From ids (B, T) in the first stage, elsewhere from what the stage before gave, (B, T, D); to (B, T, D), and in the
  /// last stage to the mean loss.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& ids, const torch::Tensor& targets) {
    torch::Tensor h = input;
    if (tokens) h = tokens(ids) + positions(torch::arange(ids.size(1), ids.options()));
    for (auto& block : blocks) h = block->forward(h);
    if (!head) return h;
    RECORD_USER_SCOPE("head.forward");
    return torch::nn::functional::cross_entropy(head(norm(h)).flatten(0, 1).to(torch::kFloat), targets.flatten());
  }

  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  std::vector<GptBlock> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};

/// The blocks' linear layers leave their weights' gradients in the store. The head does not: it would keep the logits'
/// gradient, (B / m, T, V), of each micro-batch. Nor do norms and embeddings, whose gradients take little time.
inline GptParts parts_that_defer_to(const c10::intrusive_ptr<WeightGradStore>& store) {
  return {.linear = [store](torch::nn::LinearImpl& layer, const torch::Tensor& x) {
    return deferred_linear(x, layer.weight, layer.bias, store);
  }};
}

/// A rank's stages of the GPT, one for each chunk of the schedule, and their optimizer. Every rank draws the whole
/// model alike and keeps its part.
struct RankStages {
  RankStages(const Trial& trial, const PipelineSchedule& schedule)
      : options(gpt_options(trial)),
        tied(trial.get(kTied)),
        store(schedule.split ? c10::make_intrusive<WeightGradStore>() : nullptr),
        group_(trial.mesh.along(kPipeline).group),
        rank_(trial.mesh.along(kPipeline).index),
        last_rank_(schedule.ranks - 1) {
    if (options.layers < schedule.stages()) {
      trial.skip("layers=" + std::to_string(options.layers) + " do not make " + std::to_string(schedule.stages()) +
                 " stages");
    }
    const Gpt whole(options, store ? parts_that_defer_to(store) : GptParts());
    if (tied) {  // two copies of one weight, on the first rank and on the last
      const torch::NoGradGuard no_grad;
      whole->head->weight.copy_(whole->tokens->weight);
    }
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      const auto part = std::make_shared<GptStage>(whole, blocks_of(options.layers, stage, schedule.stages()),
                                                   stage == 0, stage + 1 == schedule.stages());
      const int owner = schedule.rank_of(stage);
      for (const auto& item : part->named_parameters()) {
        if (tied && item.key() == "head.weight") continue;
        owners_.push_back({item.key(), item.value().sizes().vec(), owner});
      }
      if (owner == rank_) stages.push_back(part);
    }
    for (const auto& stage : stages) {
      stage->to(trial.device);
      for (const auto& item : stage->named_parameters()) parameters.insert(item.key(), item.value());
    }
    optimizer = sgd(parameters.values(), options.learning_rate);
  }

  torch::Tensor forward(int chunk, const torch::Tensor& input, const torch::Tensor& ids, const torch::Tensor& targets) {
    return stages[static_cast<size_t>(chunk)]->forward(input, ids, targets);
  }

  /// Of a tied weight the gradients of both its copies, added up.
  void add_tied_gradients() {
    if (rank_ == 0) add_gradient_of(last_rank_, parameters["tokens.weight"].mutable_grad(), *group_);
    if (rank_ == last_rank_) add_gradient_of(0, parameters["head.weight"].mutable_grad(), *group_);
  }

  /// What a rank does that does not wait for all micro-batches: an update by the gradients so far. In Python and here
  /// autograd refuses a backward() through weights that have changed since its forward(); through .data it cannot see
  /// it.
  void update_at_once() {
    for (const torch::Tensor& parameter : parameters.values()) {
      if (parameter.grad().defined()) parameter.data().sub_(parameter.grad(), options.learning_rate);
    }
    optimizer->zero_grad();
  }

  /// All stages' parameters and gradients, on every rank.
  Gathered gather() const {
    Gathered all;
    for (const Owned& owned : owners_) {
      const torch::Tensor* own = owned.rank == rank_ ? parameters.find(owned.name) : nullptr;
      all.parameters.insert(owned.name, from_owner(owned, own != nullptr ? own->detach() : torch::Tensor()));
      const torch::Tensor gradient = own != nullptr ? own->grad() : torch::Tensor();
      all.gradients.insert(owned.name, updated ? from_owner(owned, gradient) : torch::Tensor());
    }
    return all;
  }

  GptOptions options;
  bool tied;
  c10::intrusive_ptr<WeightGradStore> store;  ///< in a split schedule
  std::vector<std::shared_ptr<GptStage>> stages;
  Parameters parameters = Parameters();
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  bool updated = false;  ///< whether there are gradients

 private:
  struct Owned {
    std::string name;
    std::vector<int64_t> sizes;
    int rank = 0;
  };

  torch::Tensor from_owner(const Owned& owned, const torch::Tensor& own) const {
    const torch::Device device = parameters.begin()->value().device();
    std::vector<torch::Tensor> value{own.defined() ? own.clone() : torch::zeros(owned.sizes, device)};
    c10d::BroadcastOptions from;
    from.rootRank = owned.rank;
    group_->broadcast(value, from)->wait();
    return value[0];
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int rank_, last_rank_;
  std::vector<Owned> owners_;
};

}  // namespace tenfold::inline lesson_55
