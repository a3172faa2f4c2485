#pragma once
// What lesson 59 counts: bytes of the all-to-all on more ranks than a machine has cores for, where the ranks are
// threads, and how evenly a trained router uses its experts.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/rank_counts.h"
#include "common/models/gpt.h"
#include "common/models/momentum_sgd.h"
#include "expert_capacity.h"
#include "expert_parallel.h"
#include "moe_bytes.h"
#include "moe_gpt.h"
#include "settings.h"

namespace tenfold::inline lesson_59 {

/// What ranks gave to all-to-alls in an update of one mixture.
struct AllToAllBytes {
  double mean = 0, most = 0;  ///< over the ranks
};

/// One forward and backward of a mixture on some ranks, of tokens that are random numbers.
inline AllToAllBytes count_all_to_all(const MoeSizes& of) {
  std::vector<double> bytes(static_cast<size_t>(of.ranks));
  const auto draw = [](at::IntArrayRef sizes, int64_t seed) {  // the ranks are threads, which share LibTorch's own
    return torch::randn(sizes, at::detail::createCPUGenerator(static_cast<uint64_t>(seed)));
  };
  on_counted_ranks(
      static_cast<int>(of.ranks), [&](int rank, const TensorGroup::Pointer& pointer, RequestCounter& asked) {
        const TensorGroup group(pointer);
        const int64_t width = of.gpt.width, own = of.experts / of.ranks;
        const torch::Tensor x = draw({of.tokens(), width}, 1 + rank).requires_grad_();
        const torch::Tensor up = draw({own, width, 4 * width}, 100), down = draw({own, 4 * width, width}, 101);
        const Routing routing = route(x, draw({of.experts, width}, 102), of.active);
        const torch::Tensor result = of.way == Way::buffers ? capacity_mlp(x, routing, of.capacity(), up, down, group)
                                                            : expert_parallel_mlp(x, routing, up, down, group);
        result.sum().backward();
        bytes[static_cast<size_t>(rank)] = static_cast<double>(asked.take()["all_to_all"].bytes);
      });
  AllToAllBytes counted;
  for (const double of_rank : bytes) {
    counted.mean += of_rank / static_cast<double>(of.ranks);
    counted.most = std::max(counted.most, of_rank);
  }
  return counted;
}

/// Bytes that a rank gives to all-to-alls in an update of one block, over those of its own part of one (B, T, D).
inline std::vector<Look> sent_looks() {
  const auto look = [](Way way, double factor) {
    return [=](const Trial& trial) {
      for (const int64_t ranks : {2, 4, 8}) {
        MoeSizes of = moe_sizes(trial, way, ranks, ranks);
        of.capacity_factor = factor;
        const AllToAllBytes counted = count_all_to_all(of);
        const auto stream = static_cast<double>(of.stream());
        const std::string on = ranks_text(ranks);
        trial.note(on, counted.mean / stream, "activations");
        trial.note(on + ", formula", static_cast<double>(of.all_to_all_bytes()) / stream, "activations");
        trial.note(on + ", most", counted.most / stream, "activations");
      }
    };
  };
  return {{"rows", look(Way::sorted, 0)},
          {"buffers, factor 1.25", look(Way::buffers, 1.25)},
          {"buffers, nothing dropped", look(Way::buffers, 0)}};
}

enum class Balance { none, loss, bias };

/// Of some batches: how their pairs are spread over the experts.
struct Loads {
  double largest = 0;  ///< of a block's experts over their mean: the mean over blocks and batches
  double dropped_at_1 = 0, dropped_at_1_25 = 0;  ///< parts of the pairs, by capacity factor

  void add(const Routing& routing, int64_t experts, double share) {
    const torch::Tensor load = sort_by_expert(routing.experts, experts).counts.to(torch::kFloat);
    const auto dropped = [&](double factor) {
      const int64_t capacity = capacity_of(routing.pairs(), routing.experts.size(0), experts, factor);
      const torch::Tensor pairs = assign_slots(routing.experts, experts, capacity).dropped();
      return pairs.item<double>() / static_cast<double>(routing.pairs());
    };
    largest += share * (load.max() / load.mean()).item<double>();
    dropped_at_1 += share * dropped(1);
    dropped_at_1_25 += share * dropped(1.25);
  }
};

/// Trains a GPT with mixtures that drop nothing and then counts how it spreads the tokens of a few more batches.
inline void train_and_count(const Trial& trial, Balance balance) {
  constexpr int64_t kCounted = 8;
  const GptOptions options = gpt_options(trial);
  const MixtureOptions chosen = mixture_options(trial);
  const auto compute = [](const torch::Tensor& x, const Routing& routing, const MixtureImpl& of) {
    return sorted_mlp(x, routing, of.up, of.down);
  };
  torch::manual_seed(trial.seed);
  MoeGpt moe(options, chosen, compute);
  std::vector<Routing> routings;  // of each block, in this forward
  for (auto& mixture : moe.mixtures) {
    if (balance == Balance::bias) mixture->bias = torch::zeros({chosen.experts});
    mixture->observe = [&](const Routing& routing) { routings.push_back(routing); };
  }
  Batches batches(trial, options);
  const auto optimizer = sgd(moe.model->parameters(), options.learning_rate);
  Loads loads;
  double mean_loss = 0;
  const int64_t updates = trial.get(kUpdates);
  for (int64_t update = 0; update < updates + kCounted; ++update) {
    const bool train = update < updates;
    const torch::AutoGradMode mode(train);
    routings.clear();
    const auto [ids, targets] = batches.next();
    torch::Tensor loss = moe.model->loss(moe.model->hidden(ids), targets);
    if (!train) {
      mean_loss += loss.item<double>() / kCounted;
      const double share = 1.0 / static_cast<double>(kCounted * options.layers);
      for (const Routing& routing : routings) loads.add(routing, chosen.experts, share);
      continue;
    }
    std::vector<torch::Tensor> counts;
    for (const Routing& routing : routings) counts.push_back(sort_by_expert(routing.experts, chosen.experts).counts);
    for (size_t block = 0; block < counts.size() && balance == Balance::loss; ++block)
      loss = loss + trial.get(kLossWeight) * balance_loss(routings[block], counts[block]);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    for (size_t block = 0; block < counts.size() && balance == Balance::bias; ++block)
      update_bias(moe.mixtures[block]->bias, counts[block], trial.get(kBiasRate));
  }
  trial.note("largest load over the mean", loads.largest, "");
  trial.note("dropped at factor 1", 100 * loads.dropped_at_1, "%");
  trial.note("dropped at factor 1.25", 100 * loads.dropped_at_1_25, "%");
  trial.note("loss", mean_loss, "");
}

inline std::vector<Look> balance_looks() {
  return {{"nothing", [](const Trial& trial) { train_and_count(trial, Balance::none); }},
          {"auxiliary loss", [](const Trial& trial) { train_and_count(trial, Balance::loss); }},
          {"bias", [](const Trial& trial) { train_and_count(trial, Balance::bias); }}};
}

}  // namespace tenfold::inline lesson_59
