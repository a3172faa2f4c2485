// installs as <tenfold/sharded_checkpoint.h>
#pragma once
// A checkpoint of sharded training: each rank saves its shards, and any other number of ranks can go on from them.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "flat_unit.h"
#include "zero.h"

namespace tenfold {

/// Rank `rank`'s shard of `ranks`, out of the shards that another number of ranks had of the same `values`.
inline torch::Tensor resharded(const std::vector<torch::Tensor>& shards, int64_t values, int rank, int ranks) {
  const int64_t before = shards.at(0).numel(), size = shard_size(values, ranks);
  TORCH_CHECK_VALUE(before == shard_size(values, static_cast<int>(shards.size())), shards.size(), " shards of ", before,
                    " values are not those of ", values, " values: is a rank's file missing?");
  const torch::Tensor shard = torch::zeros({size}, shards[0].options());
  const int64_t begin = rank * size, end = std::min(values, begin + size);
  for (int64_t at = begin; at < end;) {
    const int64_t offset = at % before, count = std::min(end - at, before - offset);
    shard.narrow(0, at - begin, count).copy_(shards[static_cast<size_t>(at / before)].narrow(0, offset, count));
    at += count;
  }
  return shard;
}

/// What one rank saves: by unit its shards of the parameters and of AdamW's two averages, the updates made so far, and
/// where each parameter lies in the unit.
using ShardCheckpoint = std::map<std::string, torch::Tensor>;

namespace sharded_checkpoint {
/// AdamW's state of a shard, made if there is none yet.
inline torch::optim::AdamWParamState& state_of(torch::optim::AdamW& optimizer, const torch::Tensor& shard) {
  auto& state = optimizer.state()[shard.unsafeGetTensorImpl()];
  if (!state) {
    auto fresh = std::make_unique<torch::optim::AdamWParamState>();
    fresh->step(0);
    fresh->exp_avg(torch::zeros_like(shard));
    fresh->exp_avg_sq(torch::zeros_like(shard));
    state = std::move(fresh);
  }
  return static_cast<torch::optim::AdamWParamState&>(*state);
}
}  // namespace sharded_checkpoint

/// The tensors themselves, which the next update changes. Frozen units are in it, without averages.
inline ShardCheckpoint shard_states(const ShardedDataParallel& sharded, torch::optim::AdamW& optimizer) {
  ShardCheckpoint saved;
  for (const auto& unit : sharded.units()) {
    saved[unit->name() + "/parameters"] = unit->shard();
    saved[unit->name() + "/layout"] = unit->layout();
    if (!unit->trainable()) continue;
    const auto& state = sharded_checkpoint::state_of(optimizer, unit->shard());
    saved[unit->name() + "/average"] = state.exp_avg();
    saved[unit->name() + "/square"] = state.exp_avg_sq();
    saved[unit->name() + "/step"] = torch::full({1}, state.step(), torch::kLong);
  }
  return saved;
}

/// Copies of them, on the CPU.
inline ShardCheckpoint checkpoint_of(const ShardedDataParallel& sharded, torch::optim::AdamW& optimizer) {
  ShardCheckpoint saved = shard_states(sharded, optimizer);
  for (auto& [name, tensor] : saved) tensor = tensor.detach().cpu().clone();
  return saved;
}

/// Goes on from the checkpoints of all ranks that saved, in their order. There may have been more or fewer of them; of
/// as many a rank needs its own alone, and the others may be empty. Every rank must call it. Throws std::out_of_range
/// where a unit is missing, c10::ValueError where a rank's checkpoint is, or where parameters lay in other places: in
/// another model's unit, or in a version of flat_unit.h that aligned them otherwise.
inline void load_checkpoint(const std::vector<ShardCheckpoint>& of_ranks, ShardedDataParallel& sharded,
                            torch::optim::AdamW& optimizer) {
  const torch::NoGradGuard no_grad;
  for (const auto& unit : sharded.units()) {
    const bool as_many = static_cast<int>(of_ranks.size()) == unit->ranks();
    const ShardCheckpoint& nearest = of_ranks.at(as_many ? static_cast<size_t>(unit->rank()) : 0);
    const auto own = [&](const std::string& entry) {
      if (as_many) return nearest.at(unit->name() + "/" + entry);
      std::vector<torch::Tensor> shards;
      for (const ShardCheckpoint& saved : of_ranks) shards.push_back(saved.at(unit->name() + "/" + entry));
      return resharded(shards, unit->values(), unit->rank(), unit->ranks());
    };
    const auto layout = nearest.find(unit->name() + "/layout");
    const bool lies_alike = layout != nearest.end() && torch::equal(layout->second, unit->layout());
    TORCH_CHECK_VALUE(lies_alike || !nearest.contains(unit->name() + "/parameters"), "unit '", unit->name(),
                      "': in the checkpoint its parameters lie in other places than here");
    const torch::Tensor shard = unit->shard(), saved = own("parameters");
    TORCH_CHECK_VALUE(saved.sizes() == shard.sizes(), "unit '", unit->name(), "': the checkpoint's shard has ",
                      saved.numel(), " values, this rank's ", shard.numel(), ": is a rank's file missing?");
    shard.copy_(saved);
    if (unit->is_whole()) unit->gather_again();
    if (!unit->trainable()) continue;
    auto& state = sharded_checkpoint::state_of(optimizer, shard);
    state.exp_avg().copy_(own("average"));
    state.exp_avg_sq().copy_(own("square"));
    state.step(nearest.at(unit->name() + "/step").item<int64_t>());
  }
}

/// One file for each rank.
inline void save_checkpoint(const ShardCheckpoint& checkpoint, const std::string& path) {
  torch::serialize::OutputArchive archive;
  for (const auto& [name, tensor] : checkpoint) archive.write(name, tensor);
  archive.save_to(path);
}
inline ShardCheckpoint read_checkpoint(const std::string& path) {
  torch::serialize::InputArchive archive;
  archive.load_from(path);
  ShardCheckpoint checkpoint;
  for (const std::string& name : archive.keys()) archive.read(name, checkpoint[name]);
  return checkpoint;
}

}  // namespace tenfold
