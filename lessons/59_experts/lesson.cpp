// Lesson 59 - Mixture of experts
// How are many experts computed of which each token uses a few, and how are they spread over ranks?
// Read mixture_of_experts.h first: routing, sorting by expert, grouped matmuls. expert_parallel.h sends rows to the
// ranks that have their experts; expert_capacity.h gives each expert a buffer of fixed size.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "common/models/momentum_sgd.h"
#include "expert_capacity.h"
#include "expert_parallel.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "mistakes.h"
#include "mixture_of_experts.h"
#include "moe_gpt.h"
#include "plain_experts.h"
#include "prediction.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;
using torch::Tensor;

// --- one mixture: tokens x (n, D), and each token's k experts with their weights ---

/// Rows sorted by expert, and one grouped matmul for all.
Tensor sorted(const Tensor& x, const Routing& routing, const MixtureImpl& of) {
  return sorted_mlp(x, routing, of.up, of.down);
}

/// The same on ranks: rows go to their experts, and results back.
Tensor on_ranks(const Tensor& x, const Routing& routing, const MixtureImpl& of) {
  return expert_parallel_mlp(x, routing, of.up, of.down, of.options.group);
}

/// Equal buffers for all experts, whatever the router has chosen.
Experts in_buffers(double factor) {
  return [factor](const Tensor& x, const Routing& routing, const MixtureImpl& of) {
    const int64_t capacity = capacity_of(routing.pairs(), x.size(0), of.options.experts, factor);
    return capacity_mlp(x, routing, capacity, of.up, of.down, of.options.group);
  };
}

// --- training ---

/// One process with all experts. Other ranks have nothing to do.
Step one_process(const Trial& trial, const Experts& compute) {
  const GptOptions options = gpt_options(trial);
  auto moe = std::make_shared<MoeGpt>(options, mixture_options(trial), compute);
  moe->model->to(trial.device);
  auto batches = std::make_shared<Batches>(trial, options);
  std::shared_ptr<torch::optim::Optimizer> optimizer = sgd(moe->model->parameters(), options.learning_rate);
  auto update = [=, idle = trial.rank != 0] {
    if (idle) return Tensor();
    const auto batch = batches->next();  // (B, T) each
    optimizer->zero_grad();
    Tensor loss = forward_backward(*moe, batch);
    optimizer_step(*optimizer);
    return loss;
  };
  return {options.batch * options.length, moe->model->named_parameters(), update};
}

enum class Mistake { none, averaged, not_divided };

/// The ranks along "ep" divide the experts; all ranks divide the batch. Along "dp", if the mesh has it, ranks have the
/// same experts.
Step spread(const Trial& trial, const Experts& compute, Mistake mistake = Mistake::none) {
  needs_two_ranks(trial);
  const RankPlace place = place_of(trial);
  const GptOptions options = gpt_options(trial);
  auto moe = std::make_shared<MoeGpt>(options, mixture_options(trial, place.experts), compute);
  moe->model->to(trial.device);
  auto batches = std::make_shared<Batches>(trial, options, place.place, place.places);
  std::shared_ptr<torch::optim::Optimizer> optimizer = sgd(moe->model->parameters(), options.learning_rate);
  auto update = [=, all_ranks = trial.group] {
    const auto batch = batches->next();  // (B / ranks, T) each
    optimizer->zero_grad();
    Tensor loss = forward_backward(*moe, batch);
    const auto dense = moe->dense_parameters(), experts = moe->expert_parameters();
    average_in_buckets(dense, assign_buckets(dense, {}), *all_ranks);
    if (mistake == Mistake::averaged) average_in_buckets(experts, assign_buckets(experts, {}), *all_ranks);  // wrong
    if (mistake == Mistake::none) divide_expert_gradients(experts, place.experts.ranks());
    if (place.same_experts) average_in_buckets(experts, assign_buckets(experts, {}), *place.same_experts);
    optimizer_step(*optimizer);
    return loss;
  };
  return {.items = options.batch * options.length,
          .parameters = moe->model->named_parameters(),
          .update = update,
          .gather = [moe] { return moe->gather(); }};
}

Step one_with_all(const Trial& trial) { return one_process(trial, every_expert); }
Step one_loop(const Trial& trial) { return one_process(trial, loop_over_experts); }
Step one_sorted(const Trial& trial) { return one_process(trial, sorted); }
Step one_in_buffers(const Trial& trial) { return one_process(trial, in_buffers(trial.get(kCapacityFactor))); }
Step spread_rows(const Trial& trial) { return spread(trial, on_ranks); }
Step spread_buffers(const Trial& trial) { return spread(trial, in_buffers(trial.get(kCapacityFactor))); }
Step not_divided(const Trial& trial) { return spread(trial, on_ranks, Mistake::not_divided); }
Step averaged(const Trial& trial) { return spread(trial, on_ranks, Mistake::averaged); }
Step weighted_first(const Trial& trial) { return one_process(trial, weights_first); }
Step not_inverted(const Trial& trial) { return one_process(trial, order_for_inverse); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kExpertParallel, kAllRanks}}};
  return run(
      argc, argv,
      {.title = "Mixture of experts",
       .question = "How are many experts computed of which each token uses a few, and how are they spread over "
                   "ranks?",
       .workload = gpt_workload,
       .version = 6,
       .settings = {kExperts, kActive, kCapacityFactor, kDataRanks, kUpdates, kLossWeight, kBiasRate},
       .baseline = {"every expert", one_with_all},
       .most_bytes = most_bytes,
       .techniques = {{"loop over experts", with_numbers(one_loop), predict_loop},
                      {"sorted", with_numbers(one_sorted), predict_sorted},
                      {"buffers", one_in_buffers, predict_buffers},
                      {"expert parallel", with_numbers(spread_rows), predict_expert_parallel},
                      {"expert parallel, buffers", spread_buffers, predict_spread_buffers},
                      {"weights before the expert", with_numbers(weighted_first)},
                      {"permutation not inverted", with_numbers(not_inverted)},
                      {"expert gradients not divided", with_numbers(not_divided)},
                      {"expert gradients averaged", with_numbers(averaged)}},
       .cases = {{.name = "gpt", .expected = {{"loop over experts", {FASTER, SMALLER}}, {"sorted", {FASTER, SMALLER}}}},
                 {.name = "many experts",
                  .settings = many_experts(),
                  .expected = {{"loop over experts", {FASTER, SMALLER}}, {"sorted", {FASTER, SMALLER}}}},
                 {.name = "few tokens",
                  .settings = few_tokens(),
                  .expected = {{"sorted", {}},
                               {"buffers", {}},
                               {"weights before the expert", TRAP},
                               {"permutation not inverted", TRAP}}},
                 {.name = "ranks",
                  .settings = wide_experts(),
                  .expected = {{"expert parallel", SMALLER}, {"expert parallel, buffers", SMALLER}},
                  .place = any_ranks},
                 {.name = "few tokens, ranks",
                  .settings = few_tokens(),
                  .expected = {{"expert parallel", SLOWER},
                               {"expert gradients not divided", TRAP},
                               {"expert gradients averaged", TRAP}},
                  .place = any_ranks},
                 {.name = "data x experts",
                  .settings = on_two_by_two(),
                  .expected = {{"expert parallel", {}}},
                  .place = {.mesh = {{kDataParallel, 2}, {kExpertParallel, 2}}}}},
       .surveys = {{"sent", sent_looks(), survey_sizes()}, {"balance", balance_looks(), balance_sizes()}},
       .headline = Headline{"many experts", "sorted"},
       .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
