#pragma once
// What a rank of lesson 52 trains: the GPT, on sequences of the text that it draws through the distributed sampler.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/host_batch.h"
#include "distributed_sampler.h"
#include "settings.h"

namespace tenfold::inline lesson_52 {

/// The data set: the text in sequences of `length` tokens, one behind the other.
struct TextSequences {
  torch::Tensor tokens;  ///< (N)
  int64_t length = 0;

  int64_t size() const { return (tokens.size(0) - 1) / length; }
  /// Those with these numbers: ids and the ids that follow them, (B, T) each.
  std::pair<torch::Tensor, torch::Tensor> operator()(const torch::Tensor& numbers) const {
    const torch::Tensor places = numbers.unsqueeze(1) * length + torch::arange(length);  // (B, T)
    return {tokens.take(places), tokens.take(places + 1)};
  }
};

/// Whose sequences a rank draws: its own share of an epoch, or all.
struct Shard {
  int rank = 0, ranks = 1;
};
inline Shard own_shard(const Trial& trial) { return {trial.rank, trial.world_size}; }

/// Ids and next ids, (rows, T) each.
struct Sequences {
  torch::Tensor ids, targets;
};

struct RankTraining : GptTraining {
  /// Updates of `rows` sequences of `shard`, in equal parts. Ranks that shuffle with the trial's seed together draw
  /// what one process with the whole draws.
  RankTraining(const Trial& trial, const Shard& shard, int64_t rows, int64_t parts)
      : GptTraining(trial),
        sequences_{shakespeare_tokens(model->options.tokens, /*train=*/true), model->options.length},
        device_(trial.device),
        shard_(shard),
        rows_(rows),
        parts_(parts),
        seed_(trial.seed) {
    set_epoch(0);
  }

  /// The next update's sequences, part by part, on the trial's device. Region "data".
  std::vector<Sequences> next_parts() {
    RECORD_USER_SCOPE("data");
    if (at_ + rows_ > static_cast<int64_t>(epoch_order_.size())) set_epoch(epoch_ + 1);
    const auto numbers = torch::from_blob(epoch_order_.data() + at_, {rows_}, torch::kLong);
    at_ += rows_;
    const auto [ids, targets] = sequences_(numbers);
    const auto parts_of_ids = tensor_on(device_, ids).chunk(parts_);
    const auto parts_of_targets = tensor_on(device_, targets).chunk(parts_);
    std::vector<Sequences> parts;
    for (size_t i = 0; i < parts_of_ids.size(); ++i) parts.push_back({parts_of_ids[i], parts_of_targets[i]});
    return parts;
  }

  /// Forward and backward of one of the update's parts. Returns its share of the update's loss.
  torch::Tensor forward_backward(const Sequences& part) {
    torch::Tensor loss = model->loss(model->hidden(part.ids), part.targets) / parts_;
    loss.backward();
    return loss.detach();
  }

  torch::Tensor no_loss_yet() const { return torch::zeros({}, torch::dtype(torch::kFloat).device(device_)); }

  void optimizer_step() {
    RECORD_USER_SCOPE("optimizer");
    optimizer->step();
  }

 private:
  /// Another order in each epoch, the same one on all ranks. In ordinary memory: a loader's, not the model's.
  void set_epoch(uint64_t epoch) {
    const torch::Tensor order =
        indices_of_rank(sequences_.size(), shard_.rank, shard_.ranks, seed_, epoch).contiguous();
    epoch_order_.assign(order.const_data_ptr<int64_t>(), order.const_data_ptr<int64_t>() + order.numel());
    epoch_ = epoch;
    at_ = 0;
  }

  TextSequences sequences_;
  torch::Device device_;
  Shard shard_;
  int64_t rows_, parts_;
  uint64_t seed_, epoch_ = 0;
  std::vector<int64_t> epoch_order_;
  int64_t at_ = 0;
};

/// One process that trains on the global batch, at once. In weak scaling this is a batch for each rank, which it
/// processes one after another.
inline std::shared_ptr<RankTraining> train_alone(const Trial& trial) {
  return std::make_shared<RankTraining>(trial, Shard{}, rows_of_rank(trial) * trial.world_size,
                                        weak_scaling(trial) ? trial.world_size : 1);
}

/// A rank that trains on its part of the global batch, in micro-batches.
inline std::shared_ptr<RankTraining> train_part(const Trial& trial, const Shard& shard) {
  return std::make_shared<RankTraining>(trial, shard, rows_of_rank(trial), trial.get(kMicroBatches));
}

}  // namespace tenfold::inline lesson_52
