#pragma once
// What a rank of lesson 53 trains: lesson 52's GPT on the rank's own sequences, with AdamW; whole, or sharded by units.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/rank_training.h"
#include "settings.h"
#include "zero.h"

namespace tenfold::inline lesson_53 {

/// The parts of a GPT that are gathered at a time: the embeddings, each block, the last norm with the head.
inline std::vector<ShardedDataParallel::UnitNames> units_of(const GptImpl& model) {
  std::vector<ShardedDataParallel::UnitNames> units = {{"tokens", "positions"}};
  for (size_t i = 0; i < model.blocks.size(); ++i) units.push_back({"block" + std::to_string(i)});
  units.push_back({"norm", "head"});
  return units;
}

/// The loss of a part of the batch, unit by unit.
inline torch::Tensor loss_by_units(GptImpl& model, ShardedDataParallel& sharded, const Sequences& part) {
  size_t unit = 0;
  torch::Tensor h = sharded.forward(unit++, part.ids, [&](const auto& ids) { return model.embed(ids); });
  for (auto& block : model.blocks) h = sharded.forward(unit++, h, [&](const auto& x) { return block->forward(x); });
  return sharded.forward(unit, h, [&](const auto& x) { return model.loss(x, part.targets); });
}

/// Freezes what the settings say.
inline void freeze(GptImpl& model, const Trial& trial) {
  for (auto& block : model.blocks) {
    for (torch::Tensor& parameter : block->parameters()) parameter.requires_grad_(!trial.get(kFrozen));
  }
}

inline std::vector<torch::Tensor> trainable(const GptImpl& model) {
  std::vector<torch::Tensor> parameters = model.parameters();
  std::erase_if(parameters, [](const torch::Tensor& parameter) { return !parameter.requires_grad(); });
  return parameters;
}

/// What goes wrong in other people's programs.
enum class Mistake {
  none,
  averaged_twice,  ///< the loss is divided by the number of ranks, and the gradients' mean is taken, too
  norm_of_shards,  ///< gradients are clipped by the norm of a rank's own shards
  copied_shards    ///< whole parameters and gradients stay next to the optimizer's copies of the shards
};

/// A mistake: AdamW that copies the shards, and their gradients, instead of changing them.
class AdamWOfCopies : public torch::optim::AdamW {
 public:
  AdamWOfCopies(const std::vector<torch::Tensor>& shards, const torch::optim::AdamWOptions& options)
      : AdamW(copied(shards), options), shards_(shards) {}

  torch::Tensor step(LossClosure closure = nullptr) override {
    const torch::NoGradGuard no_grad;
    const auto& copies = param_groups()[0].params();
    for (size_t i = 0; i < shards_.size(); ++i) copies[i].mutable_grad() = shards_[i].grad().clone();
    torch::Tensor loss = AdamW::step(std::move(closure));
    for (size_t i = 0; i < shards_.size(); ++i) shards_[i].copy_(copies[i]);
    return loss;
  }

 private:
  static std::vector<torch::Tensor> copied(const std::vector<torch::Tensor>& shards) {
    std::vector<torch::Tensor> copies;
    for (const torch::Tensor& shard : shards) copies.push_back(shard.clone());
    return copies;
  }
  std::vector<torch::Tensor> shards_;
};

struct ShardedTraining : RankTraining {
  ShardedTraining(const Trial& trial, const ZeroOptions& options, Mistake wrong)
      : RankTraining(trial, own_shard(trial), rows_of_rank(trial), trial.get(kMicroBatches)),
        mistake_(wrong),
        ranks_(trial.world_size),
        max_norm_(trial.get(kMaxNorm)) {
    freeze(*model, trial);
    sharded = std::make_unique<ShardedDataParallel>(*model, units_of(*model), trial.group, options);
    if (wrong == Mistake::copied_shards) {
      optimizer = std::make_unique<AdamWOfCopies>(sharded->shards(), adamw_options(trial));
    } else {
      optimizer = std::make_unique<torch::optim::AdamW>(sharded->shards(), adamw_options(trial));
    }
  }

  void backward(const torch::Tensor& loss) const {
    if (mistake_ == Mistake::averaged_twice) {
      (loss / ranks_).backward();
    } else {
      loss.backward();
    }
  }

  void clip() {
    if (max_norm_ <= 0) return;
    if (mistake_ == Mistake::norm_of_shards) {
      torch::nn::utils::clip_grad_norm_(sharded->shards(), max_norm_);
    } else {
      sharded->clip_gradients(max_norm_);
    }
  }

  /// A rank's part of the parameters, as the agreement check restores it.
  Parameters parts_of_rank(int stage) const {
    if (stage < 3) return parameters();
    Parameters parts;
    for (const auto& unit : sharded->units()) parts.insert(unit->name(), unit->shard());
    return parts;
  }

  /// On every rank, for the agreement check.
  Gathered whole() const {
    auto of_all = sharded->whole();
    return {std::move(of_all.parameters), std::move(of_all.gradients)};
  }

  std::unique_ptr<ShardedDataParallel> sharded;

 private:
  Mistake mistake_;
  int ranks_;
  double max_norm_;
};

}  // namespace tenfold::inline lesson_53
