// Lesson 53 - ZeRO
// How much memory does a rank save by keeping only its shard of the model states, and what does that send?
// Read flat_unit.h first: parameters in one flat tensor, of which each rank has a shard. zero.h makes the three stages
// of it, sharded_checkpoint.h saves what training on another number of ranks can go on from.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "lessons/52_ddp/rank_training.h"
#include "prediction.h"
#include "settings.h"
#include "sharded_training.h"
#include "sixteen_bits.h"
#include "surveys.h"
#include "zero.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: every rank has the whole model and all of the optimizer's state. Gradients are averaged
/// bucket by bucket after backward(), so that no copy of them stays: 16 bytes a parameter.
Step data_parallel(const Trial& trial) {
  auto training = train_part(trial, own_shard(trial));  // (B / ranks, T), in micro-batches
  freeze(*training->model, trial);
  const std::vector<Tensor> parameters = trainable(*training->model);
  if (trial.group) broadcast_from_rank_0(training->model->parameters(), *trial.group);
  training->optimizer = std::make_unique<torch::optim::AdamW>(parameters, adamw_options(trial));
  const auto buckets = assign_buckets(parameters, bucket_sizes(trial));
  auto update = [=, group = trial.group, max_norm = trial.get(kMaxNorm)] {
    const auto parts = training->next_parts();
    Tensor total = training->no_loss_yet();
    training->optimizer->zero_grad();
    for (const Sequences& part : parts) {
      total += training->forward_backward(part);
    }
    if (group) average_in_buckets(parameters, buckets, *group);
    if (max_norm > 0) torch::nn::utils::clip_grad_norm_(parameters, max_norm);
    training->optimizer_step();
    return total;
  };
  return {tokens_of_update(trial), training->parameters(), update};
}

Step ddp(const Trial& trial) { return in_16_bits(trial) ? data_parallel_in_16_bits(trial) : data_parallel(trial); }

/// With it: the optimizer has this rank's shards. Hooks of backward() reduce the gradients, and gather the parameters.
Step zero(const Trial& trial, const ZeroOptions& options, Mistake mistake = Mistake::none) {
  auto training = std::make_shared<ShardedTraining>(trial, options, mistake);
  auto update = [training] {
    ShardedDataParallel& sharded = *training->sharded;
    const auto parts = training->next_parts();
    Tensor total = training->no_loss_yet();
    sharded.zero_grad();
    for (const Sequences& part : parts) {
      const Tensor loss = loss_by_units(*training->model, sharded, part) / static_cast<double>(parts.size());
      training->backward(loss);
      total += loss.detach();
    }
    sharded.finish();
    training->clip();
    training->optimizer_step();
    sharded.gather_updated();  // stages 1 and 2
    return total;
  };
  return {.items = tokens_of_update(trial),
          .parameters = training->parts_of_rank(options.stage),
          .update = update,
          .gather = [training] { return training->whole(); }};
}

Step stage_1(const Trial& trial) { return zero(trial, {.stage = 1}); }
Step stage_2(const Trial& trial) { return zero(trial, {.stage = 2}); }
Step stage_3(const Trial& trial) { return zero(trial, {.stage = 3}); }
/// Parameters stay between a unit's forward and its backward.
Step kept(const Trial& trial) { return zero(trial, {.stage = 3, .reshard_after_forward = false}); }
/// Nothing overlaps: each collective is waited for at once.
Step waiting(const Trial& trial) { return zero(trial, {.stage = 3, .prefetch = false}); }
/// It computes in what it gathers.
Step gathered_in_16_bits(const Trial& trial) { return zero(trial, {.stage = 3, .gathered_as = torch::kBFloat16}); }
Step frozen_kept(const Trial& trial) { return zero(trial, {.stage = 3, .keep_frozen = true}); }

// Both are no mistakes on one rank.
Step averaged_twice(const Trial& trial) {
  needs_two_ranks(trial);
  return zero(trial, {.stage = 2}, Mistake::averaged_twice);
}
Step norm_of_shards(const Trial& trial) {
  needs_two_ranks(trial);
  return zero(trial, {.stage = 2}, Mistake::norm_of_shards);
}
Step copied_shards(const Trial& trial) { return zero(trial, {.stage = 1}, Mistake::copied_shards); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kDataParallel, kAllRanks}}}, two_ranks = {.mesh = {{kDataParallel, 2}}};
  const std::vector<Expectation> smaller = {{"stage 1", SMALLER},
                                            {"stage 2", SMALLER},
                                            {"stage 3", SMALLER},
                                            {"stage 3, kept", SMALLER},
                                            {"stage 3, waits", SMALLER}};
  std::vector<Expectation> and_trap = smaller;
  and_trap.push_back({"averaged twice", TRAP});
  return run(
      argc, argv,
      {.title = "ZeRO",
       .question =
           "How much memory does a rank save by keeping only its shard of the model states, and what does that send?",
       .workload = gpt_workload,
       .version = 8,
       .settings = {kMicroBatches, kBucketKib, kScaling, kAdamWLearningRate, kMaxNorm, kFrozen, kPrecision},
       .baseline = {"DDP", ddp},
       .most_bytes = zero_most_bytes,
       .techniques = {{"stage 1", stage_1, predict_stage_1},
                      {"stage 2", stage_2, predict_stage_2},
                      {"stage 3", stage_3, predict_stage_3},
                      {"stage 3, kept", kept, predict_kept},
                      {"stage 3, waits", waiting, predict_waiting},
                      {"stage 3, 16 bits", gathered_in_16_bits, predict_16_bits},
                      {"stage 3, frozen stay", frozen_kept, predict_frozen_kept},
                      {"copied shards", copied_shards, predict_copied_shards},
                      {"averaged twice", averaged_twice},
                      {"norm of shards", norm_of_shards}},
       .cases = {{.name = "gpt", .expected = and_trap, .place = any_ranks},
                 {.name = "model states", .settings = states_fill(), .expected = smaller, .place = any_ranks},
                 {.name = "16 bits",
                  .settings = states_fill_in_16_bits(),
                  .expected = {{"stage 3, 16 bits", SMALLER}},
                  .place = any_ranks},
                 {.name = "whole copies",
                  .settings = states_fill(),
                  // On two ranks the copies are as large as what is saved. Gloo's own copies go when it has time.
                  .expected = {{"copied shards", {}, on_cuda(SMALLER)}},
                  .place = two_ranks},
                 {.name = "accumulate",
                  .settings = {gpt::kBatch(16, 8, 16), kMicroBatches(4), kMaxNorm(0.1)},
                  .expected = {{"stage 1", SMALLER},
                               {"stage 2", SMALLER},
                               {"stage 3", {SLOWER, SMALLER}},
                               {"norm of shards", TRAP}},
                  .place = any_ranks},
                 {.name = "frozen",
                  .settings = {gpt::kBatch(16, 8, 16), kMicroBatches(4), kFrozen(true)},
                  .expected = {{"stage 3", mistake(SLOWER)}, {"stage 3, frozen stay", {}}},
                  .place = any_ranks},
                 {.name = "activations",
                  .settings = activations_fill(),
                  .expected = {{"stage 1", SAME_MEMORY}, {"stage 2", SAME_MEMORY}, {"stage 3", SAME_MEMORY}},
                  .place = any_ranks},
                 {.name = "tiny",
                  .settings = tiny_model(),
                  .expected = {{"stage 1", SLOWER}, {"stage 2", SLOWER}, {"stage 3", SLOWER}},
                  .place = any_ranks}},
       .surveys = {{"states", state_looks(), odd_sizes()}, {"sent", sent_looks(), odd_sizes()}},
       .headline = Headline{"model states", "stage 3"},
       .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
