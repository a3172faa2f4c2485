// Lesson 56 - Local updates and compressed gradients
// What does it cost to send less between ranks?
// Read local_sgd.h first: parameters that are averaged now and then. gradient_compression.h sends fewer bytes in every
// update, stale_gradients.h sends them late.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "local_sgd.h"
#include "local_training.h"
#include "other_exchanges.h"
#include "prediction.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: every update's gradients are averaged over the ranks. A step is a round of updates.
Step data_parallel(const Trial& trial) {
  auto training = std::make_shared<LocalTraining>(trial, own_shard(trial));
  return step_of(trial, training, [training] {
    Tensor total = training->no_loss_yet();
    for (int64_t i = 0; i < training->inner_updates; ++i) {
      total += training->backward();  // of this rank's own sequences
      mean_over_ranks(training->flat.gradients, training->group);
      training->optimizer_step();
    }
    return total / training->inner_updates;
  });
}

/// With it: each rank updates its own copy, and the copies are averaged once in a round, by LocalSgd or DiLoCo.
template <class Averaging, class... Options>
Step local_updates(const Trial& trial, const Shard& shard, const Options&... options) {
  auto training = std::make_shared<LocalTraining>(trial, shard);
  auto averaging =
      std::make_shared<Averaging>(training->flat.values, training->group, training->inner_updates, options...);
  return step_of(trial, training, [training, averaging] {
    Tensor total = training->no_loss_yet();
    for (int64_t i = 0; i < training->inner_updates; ++i) {
      total += training->backward();  // of this rank's own sequences
      training->optimizer_step();
      averaging->after_update();
    }
    return total / training->inner_updates;
  });
}

Step local_sgd(const Trial& trial) { return local_updates<LocalSgd>(trial, own_shard(trial)); }
Step diloco(const Trial& trial) { return local_updates<DiLoCo>(trial, own_shard(trial), outer_sgd(trial)); }

/// A trap: mean - start for a gradient instead of start - mean. The outer step goes back where the ranks came from.
Step outer_sign(const Trial& trial) {
  OuterSgd outer = outer_sgd(trial);
  outer.learning_rate = -outer.learning_rate;
  return local_updates<DiLoCo>(trial, own_shard(trial), outer);
}

/// A trap: all ranks read the same sequences, so that they make the same updates, and averaging them changes nothing.
Step same_data(const Trial& trial) {
  needs_two_ranks(trial);
  return local_updates<LocalSgd>(trial, Shard{});
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kDataParallel, kAllRanks}}};
  const auto local = Agreement::judged_by("local updates", 0.2), compressed = Agreement::judged_by("compression", 0.2);
  const auto to_the_end = [](Step (*build)(const Trial&)) {
    return [build](const Trial& trial) {
      const int64_t rounds = std::max<int64_t>(1, trial.get(kUpdates) / trial.get(kInnerUpdates));
      return train_to_the_end(trial, build(trial), {.updates = rounds, .evaluations = 5});
    };
  };
  const Metric loss{.name = "validation loss", .margin = 0.02, .relative = true};
  return run(argc, argv,
             {.title = "Local updates and compressed gradients",
              .question = "What does it cost to send less between ranks?",
              .workload = gpt_workload,
              .version = 6,
              .settings = all_settings(),
              .baseline = {"DDP", data_parallel},
              .most_bytes = rounds_most_bytes,
              .techniques = {{"local SGD", local_sgd, predict_local_sgd, local},
                             {"DiLoCo", diloco, predict_diloco, local},
                             {"PowerSGD", power_sgd, predict_power_sgd, compressed},
                             {"top-k", top_k, predict_top_k, compressed},
                             {"bf16", bf16, predict_bf16, compressed},
                             {"outer sign", outer_sign, nullptr, local},
                             {"averaged every update", local_sgd, predict_local_sgd},
                             {"PowerSGD, full rank", power_sgd_full_rank, predict_full_rank,
                              Agreement::within(1e-3, "the gradient is put together again from rounded factors")},
                             {"top-k, all values", top_k_all_values, predict_all_values},
                             {"same data", same_data}},
              .cases = {{.name = "gpt",
                         .settings = {kInnerUpdates(2)},
                         .expected = {{"local SGD", SAME_MEMORY}, {"PowerSGD", {}}},
                         .place = any_ranks},
                        {.name = "large gradient",
                         .settings = large_gradient(),
                         .expected = {{"local SGD", {FASTER, SAME_MEMORY}},
                                      {"DiLoCo", {FASTER, LARGER}},
                                      {"PowerSGD", LARGER},
                                      {"top-k", {SLOWER, LARGER}},
                                      {"bf16", {}},
                                      {"outer sign", TRAP}},
                         .place = any_ranks},
                        {.name = "nothing left out",
                         .settings = tiny_model(),
                         .expected = {{"averaged every update", SAME_MEMORY},
                                      {"PowerSGD, full rank", {SLOWER, LARGER}},
                                      {"top-k, all values", {SLOWER, LARGER}},
                                      {"same data", TRAP}},
                         .place = any_ranks}},
              .trainings = {{.name = "local updates",
                             .metric = loss,
                             .runs = {{"DDP", to_the_end(data_parallel)},
                                      {"local SGD", to_the_end(local_sgd), NOT_WORSE},
                                      {"DiLoCo", to_the_end(diloco), NOT_WORSE},
                                      {"one step stale", to_the_end(one_step_stale), WORSE},
                                      {"outer sign", to_the_end(outer_sign), WORSE}},
                             .settings = many_updates("adamw"),
                             .place = any_ranks},
                            {.name = "compression",
                             .metric = loss,
                             .runs = {{"DDP", to_the_end(data_parallel)},
                                      {"PowerSGD", to_the_end(power_sgd), NOT_WORSE},
                                      {"top-k", to_the_end(top_k), NOT_WORSE},
                                      {"bf16", to_the_end(bf16), NOT_WORSE},
                                      {"PowerSGD, no feedback", to_the_end(power_sgd_no_feedback), WORSE}},
                             .settings = many_updates("sgd"),
                             .place = any_ranks},
                            {.name = "few values",
                             .metric = loss,
                             .runs = {{"DDP", to_the_end(data_parallel)},
                                      {"top-k", to_the_end(top_k), WORSE},
                                      {"top-k, no feedback", to_the_end(top_k_no_feedback), WORSE}},
                             .settings = few_values(),
                             .place = any_ranks}},
              .surveys = {{"sent", sent_looks(), sent_settings()}, {"links", link_looks(), wide_layers()}},
              .headline = Headline{"large gradient", "local SGD"},
              .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
