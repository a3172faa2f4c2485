#pragma once
// What lesson 54 counts on more ranks than a machine has cores for: bytes of model states on a rank, bytes that a block
// keeps for its backward, and bytes that a rank sends. The ranks are threads.

#include <torch/torch.h>

#include <cstdint>
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
#include "common/models/momentum_sgd.h"
#include "division_bytes.h"
#include "parallel_gpt.h"

namespace tenfold::inline lesson_54 {

inline Division division_of(Scheme scheme, const TensorGroup& group) {
  return {.how = {.group = group,
                  .sequence = scheme == Scheme::sequence || scheme == Scheme::gathered_again,
                  .gather_again = scheme == Scheme::gathered_again},
          .vocabulary = scheme != Scheme::tensor};
}

/// Of one rank.
struct RankCounts {
  int64_t state_bytes = 0;       ///< alive after an update
  int64_t block_kept_bytes = 0;  ///< that a block's forward leaves alive
  std::map<std::string, Requests> asked;
};

/// One update of a divided GPT on some ranks.
inline RankCounts count_update(const GptOptions& options, int64_t vocabulary, int ranks, Scheme scheme) {
  const CountCpuMemory counting;
  RankCounts counts;
  AliveOnRanks alive(ranks);
  const auto on_rank = [&](int rank, const TensorGroup::Pointer& pointer, RequestCounter& asked) {
    const TensorGroup group(pointer);
    const auto alive_of_each = [&] { return alive.bytes(rank) / ranks; };
    const int64_t before = alive_of_each();
    Gpt whole(options);
    cut_vocabulary(*whole, vocabulary);
    auto model = std::make_unique<ParallelGpt>(whole, division_of(scheme, group));
    whole = nullptr;
    const auto optimizer = sgd(model->parameters(), options.learning_rate);
    int64_t kept = 0;
    {
      const torch::Tensor ids = torch::zeros({options.batch, options.length}, torch::kLong);
      const torch::Tensor x = model->embed(ids.flatten(), options.length);  // (tokens, D)
      const int64_t before_block = alive_of_each();
      const torch::Tensor result = model->blocks.at(0)->forward(x, options.length);
      kept = alive_of_each() - before_block;
    }
    asked.take();
    {
      const torch::Tensor ids = torch::zeros({options.batch, options.length}, torch::kLong);
      model->loss(ids, ids).backward();
    }
    model->sum_replicated_gradients();
    optimizer->step();
    const int64_t state = alive_of_each() - before;
    if (rank == 0) counts = {state, kept, asked.take()};
  };
  RequestCounter nothing;
  if (ranks == 1)
    on_rank(0, {}, nothing);
  else
    on_counted_ranks(ranks, on_rank);
  return counts;
}

/// A look for each scheme, which notes something counted and the same by formula, for each number of ranks.
inline std::vector<Look> looks_of_schemes(
    const std::string& unit,
    const std::function<std::pair<double, double>(const RankCounts&, const DividedGpt&)>& both) {
  std::vector<Look> looks;
  for (const auto& [name, scheme] : {std::pair{"tensor parallel", Scheme::tensor},
                                     {"vocabulary parallel", Scheme::vocabulary},
                                     {"sequence parallel", Scheme::sequence},
                                     {"gathered again", Scheme::gathered_again}}) {
    looks.push_back({name, [unit, both, scheme = scheme](const Trial& trial) {
                       const GptOptions options = gpt_options(trial);
                       const int64_t vocabulary = vocabulary_of(options, trial.get(kVocabulary));
                       for (const int ranks : {1, 2, 4, 8}) {
                         const auto& counts = trial.shared<RankCounts>(  // by all surveys
                             std::to_string(static_cast<int>(scheme)) + " on " + std::to_string(ranks),
                             [&] { return count_update(options, vocabulary, ranks, scheme); });
                         const auto [counted, formula] = both(counts, divided_gpt(options, vocabulary, ranks, scheme));
                         const std::string on = ranks_text(ranks);
                         trial.note(on, counted, unit);
                         trial.note(on + ", formula", formula, unit);
                       }
                     }});
  }
  return looks;
}

/// Bytes of model states on a rank, for each parameter of the whole model.
inline std::vector<Look> state_looks() {
  return looks_of_schemes("bytes/parameter", [](const RankCounts& counts, const DividedGpt& of) {
    DividedGpt whole = of;
    whole.ranks = 1;
    const auto values = static_cast<double>(whole.parameter_values());
    return std::pair(static_cast<double>(counts.state_bytes) / values, static_cast<double>(of.state_bytes()) / values);
  });
}

/// Bytes that a block keeps on a rank, over those of one (B, T, D).
inline std::vector<Look> kept_looks() {
  return looks_of_schemes("activations", [](const RankCounts& counts, const DividedGpt& of) {
    const auto stream = static_cast<double>(of.stream());
    return std::pair(static_cast<double>(counts.block_kept_bytes) / stream,
                     static_cast<double>(of.block_kept_bytes()) / stream);
  });
}

/// Bytes that a rank sends in an update, over those of one (B, T, D).
inline std::vector<Look> sent_looks() {
  return looks_of_schemes("activations", [](const RankCounts& counts, const DividedGpt& of) {
    const auto stream = static_cast<double>(of.stream());
    return std::pair(static_cast<double>(sent_bytes_of(counts.asked, of.ranks)) / stream,
                     static_cast<double>(of.ring_bytes()) / stream);
  });
}

}  // namespace tenfold::inline lesson_54
