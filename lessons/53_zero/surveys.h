#pragma once
// What lesson 53 counts on more ranks than a machine has cores for: bytes that are alive between two updates, and bytes
// that are sent. The ranks are threads, and the model's sizes cannot be divided by most of their numbers.

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/memory.h"
#include "common/measure/rank_counts.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "sharded_training.h"
#include "state_bytes.h"

namespace tenfold::inline lesson_53 {

inline std::vector<Assignment> odd_sizes() {
  return {gpt::kLayers(3), gpt::kWidth(70), gpt::kHeads(2), gpt::kLength(17), gpt::kTokens("characters")};
}

/// Of one rank, after an update or in it.
struct RankCounts {
  int64_t alive_bytes = 0;
  std::map<std::string, Requests> asked;
};

/// One update of a GPT on some ranks; stage 0 is data parallel training.
inline RankCounts count_update(const GptOptions& options, int ranks, const ZeroOptions& zero) {
  const int stage = zero.stage;
  const CountCpuMemory counting;
  const int64_t before = live_bytes(torch::kCPU);
  RankCounts counts;
  AliveOnRanks alive(ranks);
  on_counted_ranks(ranks, [&](int rank, const GroupPointer& group, RequestCounter& asked) {
    Gpt model(options);
    std::unique_ptr<ShardedDataParallel> sharded;
    if (stage > 0) sharded = std::make_unique<ShardedDataParallel>(*model, units_of(*model), group, zero);
    torch::optim::AdamW optimizer(stage > 0 ? sharded->shards() : model->parameters());
    asked.take();
    {
      const torch::Tensor ids = torch::zeros({1, options.length}, torch::kLong);
      if (stage > 0) {
        loss_by_units(*model, *sharded, {ids, ids}).backward();
        sharded->finish();
      } else {
        model->loss(model->hidden(ids), ids).backward();
        average_in_buckets(model->parameters(), assign_buckets(model->parameters(), {}), *group);
      }
    }
    optimizer.step();
    if (stage > 0) sharded->gather_updated();
    const int64_t of_each = (alive.bytes(rank) - before) / ranks;
    if (rank == 0) counts = {of_each, asked.take()};
  });
  return counts;
}

/// Calls `note` with a text for each number of ranks, that number, and the model's sizes.
inline void for_rank_numbers(const Trial& trial,
                             const std::function<void(const std::string&, int, const Sharded&)>& note) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    note(ranks_text(ranks), ranks, Sharded(unit_sizes(gpt_options(trial)), ranks));
  }
}

inline std::vector<Look> looks_of_stages(const std::function<void(const Trial&, const ZeroOptions&)>& look) {
  const std::vector<std::pair<std::string, ZeroOptions>> stages = {
      {"DDP", {.stage = 0}},
      {"stage 1", {.stage = 1}},
      {"stage 2", {.stage = 2}},
      {"stage 3", {.stage = 3}},
      {"stage 3, 16 bits", {.stage = 3, .gathered_as = torch::kBFloat16}}};
  std::vector<Look> looks;
  for (const auto& [name, options] : stages)
    looks.push_back({name, [look, options = options](const Trial& trial) { look(trial, options); }});
  return looks;
}

/// Bytes for each parameter that a rank keeps between two updates, by the allocator and by formula.
inline std::vector<Look> state_looks() {
  return looks_of_stages([](const Trial& trial, const ZeroOptions& zero) {
    for_rank_numbers(trial, [&](const std::string& on, int ranks, const Sharded& sizes) {
      const auto of_each = [&](int64_t bytes) {
        return static_cast<double>(bytes) / static_cast<double>(sizes.values);
      };
      trial.note(on, of_each(count_update(gpt_options(trial), ranks, zero).alive_bytes), "bytes/parameter");
      trial.note(on + ", formula", of_each(state_bytes(sizes, zero.stage)), "bytes/parameter");
    });
  });
}

/// Bytes that a rank sends in an update, over those of the parameters; by what was asked of c10d and by formula.
inline std::vector<Look> sent_looks() {
  return looks_of_stages([](const Trial& trial, const ZeroOptions& zero) {
    for_rank_numbers(trial, [&](const std::string& on, int ranks, const Sharded& sizes) {
      const auto over_parameters = [&](int64_t bytes) {
        return static_cast<double>(bytes) / (4 * static_cast<double>(sizes.values));
      };
      const auto asked = count_update(gpt_options(trial), ranks, zero).asked;
      trial.note(on, over_parameters(sent_bytes_of(asked, ranks)), "times the parameters");
      trial.note(on + ", formula", over_parameters(ring_bytes_of(sizes, zero.stage, zero.gathered_as ? 2 : 4)),
                 "times the parameters");
    });
  });
}

}  // namespace tenfold::inline lesson_53
