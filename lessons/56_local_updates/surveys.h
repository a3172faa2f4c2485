#pragma once
// What lesson 56 counts and models beyond this machine: bytes that a rank sends among 2, 4 and 8, and what an exchange
// takes over links of other speeds.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/rank_counts.h"
#include "common/models/gpt.h"
#include "common/ranks/rank_threads.h"
#include "exchange_bytes.h"
#include "flat_model.h"
#include "gradient_compression.h"
#include "local_sgd.h"
#include "settings.h"
#include "stale_gradients.h"

namespace tenfold::inline lesson_56 {

/// A way to exchange: what a rank does after each backward pass, and what an update asks for by formula.
struct Way {
  std::string name;
  std::function<std::function<void()>(const Trial&, const torch::nn::Module&, const FlatModel&,
                                      const c10::intrusive_ptr<c10d::ProcessGroup>&)>
      make;
  std::function<AskedBytes(const Trial&, const Shapes&, int64_t)> formula;
  bool sends_late = false;  ///< while the next update is computed
};

/// The parameters once in a round.
inline AskedBytes of_a_round(const Trial& trial, const Shapes& shapes, int64_t /*ranks*/) {
  return {.all_reduce = data_parallel_bytes(shapes).all_reduce / trial.get(kInnerUpdates)};
}

inline std::vector<Way> ways() {
  const auto whole = [](const Trial&, const Shapes& shapes, int64_t) { return data_parallel_bytes(shapes); };
  std::vector<Way> all;
  all.push_back({"DDP",
                 [](const Trial&, const auto&, const FlatModel& flat, const auto& group) {
                   return [flat, group] { mean_over_ranks(flat.gradients, group); };
                 },
                 whole});
  all.push_back({"local SGD",
                 [](const Trial& trial, const auto&, const FlatModel& flat, const auto& group) {
                   auto local = std::make_shared<LocalSgd>(flat.values, group, trial.get(kInnerUpdates));
                   return [local] { local->after_update(); };
                 },
                 of_a_round});
  all.push_back({"DiLoCo",
                 [](const Trial& trial, const auto&, const FlatModel& flat, const auto& group) {
                   auto outer =
                       std::make_shared<DiLoCo>(flat.values, group, trial.get(kInnerUpdates), outer_sgd(trial));
                   return [outer] { outer->after_update(); };
                 },
                 of_a_round});
  all.push_back({"PowerSGD",
                 [](const Trial& trial, const torch::nn::Module& model, const FlatModel& flat, const auto& group) {
                   auto power = std::make_shared<PowerSgd>(model.parameters(), group, power_sgd_options(trial));
                   return [power, flat] { power->mean(flat.gradients); };
                 },
                 [](const Trial& trial, const Shapes& shapes, int64_t) {
                   return power_sgd_bytes(shapes, power_sgd_options(trial));
                 }});
  all.push_back({"top-k",
                 [](const Trial& trial, const auto&, const FlatModel& flat, const auto& group) {
                   auto top = std::make_shared<TopK>(group, TopKOptions{.share = trial.get(kShare)});
                   return [top, flat] { top->mean(flat.gradients); };
                 },
                 [](const Trial& trial, const Shapes& shapes, int64_t ranks) {
                   return top_k_bytes(shapes, trial.get(kShare), ranks);
                 }});
  all.push_back({"bf16",
                 [](const Trial&, const auto&, const FlatModel& flat, const auto& group) {
                   return [flat, group] { mean_in_bf16(flat.gradients, group); };
                 },
                 [](const Trial&, const Shapes& shapes, int64_t) { return bf16_bytes(shapes); }});
  all.push_back({"one step stale",
                 [](const Trial&, const auto&, const FlatModel& flat, const auto& group) {
                   auto stale = std::make_shared<StaleMean>(group);
                   return [stale, flat] { stale->exchange(flat.gradients); };
                 },
                 whole, /*sends_late=*/true});
  return all;
}

/// No number of its parameters can be divided by 4.
inline std::vector<Assignment> sent_settings() {
  return {gpt::kLayers(2), gpt::kWidth(54), gpt::kHeads(2), gpt::kLength(17), gpt::kTokens("characters"),
          kInnerUpdates(8)};
}

/// What rank 0 asks for in a round, on ranks that are threads.
inline AskedBytes asked_in_round(const Trial& trial, const Way& way, int ranks) {
  AskedBytes asked;
  on_counted_ranks(ranks, [&](int rank, const auto& group, RequestCounter& counter) {
    const Gpt model(gpt_options(trial));
    const FlatModel flat = flat_model(model->parameters());
    const auto exchange = way.make(trial, *model, flat, group);
    counter.take();
    for (int64_t i = 0; i < trial.get(kInnerUpdates); ++i) {
      flat.gradients.normal_();
      exchange();
    }
    thread_barrier(*group);  // what was sent late has arrived, too
    if (rank != 0) return;
    auto counted = counter.take();
    asked = {counted["all_reduce"].bytes, counted["all_gather"].bytes};
  });
  return asked;
}

/// Bytes that a rank sends in an update, over those of the parameters: as was asked of c10d, and by formula.
inline std::vector<Look> sent_looks() {
  std::vector<Look> looks;
  for (const Way& way : ways()) {
    looks.push_back({way.name, [way](const Trial& trial) {
                       const Shapes shapes = gpt_shapes(gpt_options(trial));
                       const double parameters = 4.0 * static_cast<double>(values_of(shapes));
                       for (const int ranks : {2, 4, 8}) {
                         const auto inner = static_cast<double>(trial.get(kInnerUpdates));
                         const double sent = asked_in_round(trial, way, ranks).ring_bytes(ranks) / inner;
                         const double formula = way.formula(trial, shapes, ranks).ring_bytes(ranks);
                         const std::string on = ranks_text(ranks);
                         trial.note(on, sent / parameters, "times the parameters");
                         trial.note(on + ", formula", formula / parameters, "times the parameters");
                       }
                     }});
  }
  return looks;
}

/// A link between ranks, by what one rank sends over it at most.
struct Link {
  std::string name;
  double bytes_per_second;
};
/// Ethernet's nominal rates. Not NVLink: beside it the exchange's own time on a core of a CPU would be nearly all.
inline std::vector<Link> links() { return {{"1 Gbit/s", 0.125e9}, {"10 Gbit/s", 1.25e9}, {"100 Gbit/s", 12.5e9}}; }

/// Seconds that an update's exchange takes without a link, on one rank of a Gloo group: dividing, compressing, copying.
/// The least of a few rounds.
inline double own_seconds(const Trial& trial, const Way& way, int rounds = 3) {
  double least = 0;
  on_rank_threads(1, std::chrono::seconds(60), [&](int, const auto& group) {
    const Gpt model(gpt_options(trial));
    const FlatModel flat = flat_model(model->parameters());
    const auto exchange = way.make(trial, *model, flat, group);
    const torch::Tensor gradients = torch::randn_like(flat.gradients);
    for (int round = 0; round <= rounds; ++round) {  // the first one only warms up
      std::chrono::duration<double> took{};
      for (int64_t i = 0; i < trial.get(kInnerUpdates); ++i) {
        flat.gradients.copy_(gradients);
        const auto begin = std::chrono::steady_clock::now();
        exchange();
        took += std::chrono::steady_clock::now() - begin;
      }
      if (round == 1 || (round > 1 && took.count() < least)) least = took.count();
    }
  });
  return least / static_cast<double>(trial.get(kInnerUpdates));
}

inline constexpr int64_t kLinkedRanks = 8;

/// What an update's exchange takes between 8 ranks, modelled: its own time, measured here, and the bytes of a ring over
/// the link's rate; and the rate below which it takes less than data parallel training's. Latency is not in it.
inline std::vector<Look> link_looks() {
  std::vector<Look> looks;
  const Way ddp = ways().front();
  for (const Way& way : ways()) {
    if (way.sends_late) continue;  // what it takes depends on the computing that hides it
    looks.push_back({way.name, [way, ddp](const Trial& trial) {
                       const Shapes shapes = gpt_shapes(gpt_options(trial));
                       const double own = own_seconds(trial, way);
                       const double bytes = way.formula(trial, shapes, kLinkedRanks).ring_bytes(kLinkedRanks);
                       trial.note("without a link", 1e3 * own, "ms");
                       for (const Link& link : links())
                         trial.note("at " + link.name, 1e3 * (own + bytes / link.bytes_per_second), "ms");
                       if (way.name == ddp.name) return;
                       const double more = own - own_seconds(trial, ddp);
                       const double fewer = ddp.formula(trial, shapes, kLinkedRanks).ring_bytes(kLinkedRanks) - bytes;
                       if (more > 0) trial.note("pays below", 8e-9 * fewer / more, "Gbit/s");
                     }});
  }
  return looks;
}

}  // namespace tenfold::inline lesson_56
