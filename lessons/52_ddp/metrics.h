#pragma once
// A metric over a data set that ranks have evaluated in parts: what becomes of unequal batches, and of the samples that
// the sampler deals out twice.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>

#include "common/models/gpt.h"
#include "common/ranks/rank_threads.h"
#include "distributed_sampler.h"
#include "gradient_buckets.h"
#include "rank_training.h"

namespace tenfold::inline lesson_52 {

/// All ranks' sums over all ranks' counts: every rank gets the same mean, in which each sample counts alike.
inline double mean_over_ranks(double sum, int64_t count, c10d::ProcessGroup& group) {
  const torch::Tensor both = torch::tensor({sum, static_cast<double>(count)}, torch::kDouble);
  start_all_reduce(both, group)->wait();
  return both[0].item<double>() / both[1].item<double>();
}

/// How a rank's batches become one number.
enum class Reduction {
  mean_of_means,    ///< of each batch's mean, the last and smaller one's as well
  padding_counted,  ///< sums and counts of all that the sampler has dealt out
  each_once,        ///< sums and counts without the samples that it has dealt out twice
};

/// A metric that is known of each of N samples, (N), evaluated by one rank in batches of `rows`.
inline double evaluated(const torch::Tensor& of_sample, const Shard& shard, int64_t rows, Reduction how,
                        c10d::ProcessGroup& group) {
  const int64_t size = of_sample.size(0);
  torch::Tensor own = indices_of_rank(size, shard.rank, shard.ranks, /*seed=*/0, /*epoch=*/0);
  if (how == Reduction::each_once) own = own.narrow(0, 0, samples_of_rank(size, shard.rank, shard.ranks));
  double sum = 0;
  int64_t count = 0;
  for (const torch::Tensor& batch : own.split(rows)) {
    const torch::Tensor values = of_sample.index_select(0, batch);
    sum += (how == Reduction::mean_of_means ? values.mean() : values.sum()).item<double>();
    count += how == Reduction::mean_of_means ? 1 : batch.size(0);
  }
  return mean_over_ranks(sum, count, group);
}

/// How many held-out sequences there are, on how many ranks, in batches of how many: 21 are dealt out as 24, and a
/// rank's last batch has 2 sequences instead of 4.
inline constexpr int64_t kHeldOut = 21, kHeldOutRows = 4;
inline constexpr int kHeldOutRanks = 4;

/// Percent of the next tokens that a GPT names right, of each held-out sequence, (N) on the CPU; after some updates.
inline torch::Tensor accuracy_of_sequences(const Trial& trial) {
  constexpr int kUpdates = 60;
  GptTraining training(trial);
  for (int i = 0; i < kUpdates; ++i) {
    auto [ids, targets] = training.next_batch();
    training.optimizer->zero_grad();
    training.model->loss(training.model->hidden(ids), targets).backward();
    training.optimizer->step();
  }
  const torch::NoGradGuard no_gradients;
  const GptOptions& options = training.model->options;
  const TextSequences held_out{shakespeare_tokens(options.tokens, /*train=*/false), options.length};
  const auto [ids, targets] = held_out(torch::arange(kHeldOut));
  const torch::Tensor answers = training.model->forward(ids.to(trial.device)).argmax(-1).cpu();
  return 100 * answers.eq(targets).to(torch::kDouble).mean(1);
}

/// Notes the accuracy as the ranks report it, how far that is from one process's, and how many sequences are in it.
inline void note_reduced(const Trial& trial, Reduction how) {
  const torch::Tensor of_sample = accuracy_of_sequences(trial);
  double reported = 0;
  on_rank_threads(kHeldOutRanks, std::chrono::seconds(60), [&](int rank, const auto& group) {
    const double mean = evaluated(of_sample, {rank, kHeldOutRanks}, kHeldOutRows, how, *group);
    if (rank == 0) reported = mean;
  });
  const int64_t dealt_out = kHeldOutRanks * ((kHeldOut + kHeldOutRanks - 1) / kHeldOutRanks);
  trial.note("accuracy", reported, "%");
  trial.note("off one process's", std::abs(reported - of_sample.mean().item<double>()), "points");
  trial.note("counted", static_cast<double>(how == Reduction::each_once ? kHeldOut : dealt_out), "sequences");
}

}  // namespace tenfold::inline lesson_52
