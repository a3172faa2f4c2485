#pragma once
// Lesson 53's sharded GPT, on sequences that lesson 10's loader reads ahead: each rank saves its shards, its place in
// the data and its generators, and any number of ranks with the same global batch goes on from them.

#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "images_training.h"
#include "lessons/52_ddp/rank_training.h"
#include "lessons/53_zero/sharded_checkpoint.h"
#include "lessons/53_zero/sharded_training.h"
#include "rank_checkpoints.h"
#include "resumable.h"
#include "settings.h"

namespace tenfold::inline lesson_65 {

/// The text in sequences, one behind the other: fields (T) int64, ids and the ids that follow them.
inline Dataset text_samples(const torch::Tensor& tokens, int64_t length) {
  const TextSequences sequences{tokens, length};
  const auto load = [tokens, length](int64_t i, SampleRandom&, const Row& row) {
    const int64_t* const first = tokens.const_data_ptr<int64_t>() + i * length;
    const auto bytes = static_cast<size_t>(length) * sizeof(int64_t);
    std::memcpy(row.field<int64_t>(0).data(), first, bytes);
    std::memcpy(row.field<int64_t>(1).data(), first + 1, bytes);
  };
  return {.size = sequences.size(), .fields = {{{length}, torch::kLong}, {{length}, torch::kLong}}, .load = load};
}

class ShardedGptTraining : public Resumable {
 public:
  explicit ShardedGptTraining(const Trial& trial)
      : gpt_(trial),
        device_(trial.device),
        rank_(trial.rank),
        ranks_(trial.world_size),
        sharded_(*gpt_.model, units_of(*gpt_.model), trial.group, ZeroOptions{.stage = 3}),
        optimizer_(sharded_.shards(), torch::optim::AdamWOptions(1e-3).eps(1e-6).weight_decay(1e-2)),
        dataset_(
            text_samples(shakespeare_tokens(gpt_.model->options.tokens, /*train=*/true), gpt_.model->options.length)),
        options_{.batch = share_of_rank(trial, gpt::kBatch),
                 .workers = 1,
                 .prefetch = kPrefetch,
                 .tail = Tail::drop,
                 .seed = trial.seed,
                 .rank = {trial.rank, trial.world_size},
                 .pinned = trial.device.is_cuda()},
        loader_(std::make_unique<Loader>(dataset_, options_)) {}

  torch::Tensor update() override {
    const std::vector<torch::Tensor> batch = loader_->next_of_any_epoch().to(device_);
    sharded_.zero_grad();
    const torch::Tensor loss = loss_by_units(*gpt_.model, sharded_, {batch[0], batch[1]});
    loss.backward();
    sharded_.finish();
    optimizer_.step();
    ++updates_;
    return loss.detach();
  }

  NamedTensors state() override {
    NamedTensors saved = shard_states(sharded_, optimizer_);
    add_place(saved, loader_->state());
    add_generators(saved, generators_of(device_));
    saved["counter/updates"] = torch::tensor({updates_});
    return saved;
  }

  /// Generators go on where the number of ranks is the same: those of other ranks drew for other samples.
  void load(const std::vector<NamedTensors>& of_ranks) override {
    load_checkpoint(of_ranks, sharded_, optimizer_);
    const bool as_many = static_cast<int>(of_ranks.size()) == ranks_;
    const NamedTensors& nearest = of_ranks.at(as_many ? static_cast<size_t>(rank_) : 0);
    updates_ = nearest.at("counter/updates").item<int64_t>();
    loader_ = std::make_unique<Loader>(dataset_, options_, place_of_rank(loader_place(nearest), rank_, ranks_));
    if (as_many) load_generators(nearest, generators_of(device_));
  }

  int64_t updates() const override { return updates_; }
  int64_t items() const override { return options_.batch * ranks_ * gpt_.model->options.length; }
  void park(bool parked) override { loader_->park(parked); }

  /// Of this rank.
  Parameters parameters() const override {
    Parameters parts;
    for (const auto& unit : sharded_.units()) parts.insert(unit->name(), unit->shard());
    return parts;
  }
  Gathered whole() const override {
    auto all = sharded_.whole();
    return {std::move(all.parameters), std::move(all.gradients)};
  }

 private:
  GptTraining gpt_;
  torch::Device device_;
  int rank_, ranks_;
  ShardedDataParallel sharded_;
  torch::optim::AdamW optimizer_;
  Dataset dataset_;
  LoaderOptions options_;
  std::unique_ptr<Loader> loader_;
  int64_t updates_ = 0;
};

inline std::unique_ptr<Resumable> training_of(const Trial& trial) {
  if (trial.workload.name == gpt_workload.name) return std::make_unique<ShardedGptTraining>(trial);
  return std::make_unique<ImagesTraining>(trial);
}

}  // namespace tenfold::inline lesson_65
