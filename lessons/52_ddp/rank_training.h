#pragma once
// What a rank of lesson 52 trains: the GPT, on sequences of the text that it draws through the distributed sampler.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/host_batch.h"
#include "distributed_sampler.h"
#include "settings.h"

namespace tenfold {

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

struct RankTraining : GptTraining {
  /// Batches of `rows` sequences of `shard`. Ranks that shuffle with the trial's seed together draw what one process
  /// with the whole draws.
  RankTraining(const Trial& trial, const Shard& shard, int64_t rows)
      : GptTraining(trial),
        sequences_{shakespeare_tokens(model->options.tokens, /*train=*/true), model->options.length},
        device_(trial.device),
        shard_(shard),
        rows_(rows),
        seed_(trial.seed) {
    set_epoch(0);
  }

  /// Ids and next ids, (rows, T) each, on the trial's device. Region "data".
  std::pair<torch::Tensor, torch::Tensor> next_batch() {
    RECORD_USER_SCOPE("data");
    if (at_ + rows_ > static_cast<int64_t>(epoch_order_.size())) set_epoch(epoch_ + 1);
    const auto numbers = torch::from_blob(epoch_order_.data() + at_, {rows_}, torch::kLong);
    at_ += rows_;
    const auto [ids, targets] = sequences_(numbers);
    return {tensor_on(device_, ids), tensor_on(device_, targets)};
  }

  /// Forward and backward of one of `parts` equal parts of an update. Returns its share of the loss.
  torch::Tensor forward_backward(const torch::Tensor& ids, const torch::Tensor& targets, int64_t parts = 1) {
    torch::Tensor loss = model->loss(model->hidden(ids), targets) / parts;
    loss.backward();
    return loss.detach();
  }

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
  int64_t rows_;
  uint64_t seed_, epoch_ = 0;
  std::vector<int64_t> epoch_order_;
  int64_t at_ = 0;
};

}  // namespace tenfold
