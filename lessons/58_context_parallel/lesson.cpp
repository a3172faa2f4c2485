// Lesson 58 - Context parallelism
// A sequence is too long for one GPU's activations: can ranks share it, and what do they send and wait for?
// Read sequence_parts.h first: which tokens a rank has, and what they see. Then ring_attention.h, where keys and values
// go around, gathered_attention.h, where every rank gets them all, and ulysses.h, where tokens are exchanged for heads.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "context_gpt.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "prediction.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: one process has all tokens. The other ranks have nothing to do.
Step one_process(const Trial& trial) {
  const Tensor all = torch::arange(gpt_options(trial).length);
  auto training = std::make_shared<ContextTraining>(trial, GptParts{.loss = sum_of_losses}, all);
  auto update = [training, idle = trial.rank != 0] {
    if (idle) return Tensor();
    const auto [ids, targets] = training->own_batch();  // (B, T) each
    training->optimizer->zero_grad();
    Tensor loss = training->model->loss(training->model->hidden(ids), targets) / training->targets;
    loss.backward();
    training->optimizer_step();
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// With it: every rank has the whole model and a part of each sequence. Attention is the only layer that needs other
/// tokens. All else is data parallel training with tokens for samples.
Step over_ranks(const Trial& trial, Scheme scheme, Mistake mistake = Mistake::none) {
  const auto& along = trial.mesh.along(kContextParallel);
  skip_unless_divisible(trial, scheme, along.size);
  const auto attention = [=, group = along.group](const Tensor& qkv, double /*dropout*/) {
    return attention_over_ranks(qkv, scheme, group, mistake);
  };
  const Tensor places = places_of_rank(order_of(scheme), gpt_options(trial).length, along.index, along.size);
  auto training =
      std::make_shared<ContextTraining>(trial, GptParts{.attention = attention, .loss = sum_of_losses}, places);
  if (mistake == Mistake::positions_from_zero) training->places = training->places - training->places[0];  // wrong
  auto update = [=, group = along.group, ranks = along.size] {
    const auto [ids, targets] = training->own_batch();  // (B, T / N) each
    training->optimizer->zero_grad();
    const Tensor h = training->model->blocks_forward(training->model->embed(ids, training->places));
    // Of all ranks' targets, not of this one's: parts of a sequence may have different numbers of them. The ranks'
    // gradients are averaged, hence the factor; the mean of what they return is the loss.
    Tensor loss = training->model->loss(h, targets) * ranks / training->targets;
    if (mistake == Mistake::mean_of_each_rank) loss = loss * training->targets / ranks / own_targets(targets);  // wrong
    loss.backward();
    const auto parameters = training->model->parameters();
    if (group) average_in_buckets(parameters, assign_buckets(parameters, {}), *group);
    training->optimizer_step();
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

Step ring_step(const Trial& trial) { return over_ranks(trial, Scheme::ring); }
Step zigzag_step(const Trial& trial) { return over_ranks(trial, Scheme::zigzag); }
/// All keys and values at once, as PyTorch's context_parallel has it by default.
Step gathered_step(const Trial& trial) { return over_ranks(trial, Scheme::gathered); }
Step ulysses_step(const Trial& trial) { return over_ranks(trial, Scheme::ulysses); }

/// What is no mistake on one rank.
Step on_two_ranks(const Trial& trial, Mistake mistake) {
  needs_two_ranks(trial);
  return over_ranks(trial, mistake == Mistake::positions_from_zero ? Scheme::ring : Scheme::zigzag, mistake);
}
Step positions_from_zero(const Trial& trial) { return on_two_ranks(trial, Mistake::positions_from_zero); }
Step mean_of_each_rank(const Trial& trial) { return on_two_ranks(trial, Mistake::mean_of_each_rank); }
Step not_rescaled(const Trial& trial) { return on_two_ranks(trial, Mistake::not_rescaled); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kContextParallel, kAllRanks}}};
  return run(argc, argv,
             {.title = "Context parallelism",
              .question = "A sequence is too long for one GPU's activations: can ranks share it, and what do they send "
                          "and wait for?",
              .workload = gpt_workload,
              .version = 6,
              .settings = {kPrompt},
              .baseline = {"one process", one_process},
              .techniques = {{"ring", ring_step, predict_ring},
                             {"zigzag ring", zigzag_step, predict_zigzag},
                             {"gathered", gathered_step, predict_gathered},
                             {"Ulysses", ulysses_step, predict_ulysses},
                             {"positions from zero", positions_from_zero},
                             {"mean of each rank", mean_of_each_rank},
                             {"not rescaled", not_rescaled}},
              .cases = {{.name = "gpt",
                         .expected = {{"zigzag ring", SMALLER}, {"gathered", SMALLER}, {"Ulysses", SMALLER}},
                         .place = any_ranks},
                        {.name = "long",
                         .settings = long_sequence(),
                         .expected = {{"ring", SMALLER},
                                      {"zigzag ring", {FASTER, SMALLER}},
                                      {"gathered", {FASTER, SMALLER}},
                                      {"Ulysses", {FASTER, SMALLER}}},
                         .place = any_ranks},
                        {.name = "short",
                         .settings = short_sequences(),
                         .expected = {{"zigzag ring", SLOWER},
                                      {"Ulysses", SLOWER},
                                      {"positions from zero", TRAP},
                                      {"mean of each rank", TRAP},
                                      {"not rescaled", TRAP}},
                         .place = any_ranks},
                        {.name = "few heads",
                         .settings = few_heads(),
                         .expected = {{"zigzag ring", {}}, {"gathered", {}}, {"Ulysses", {}}},
                         .place = {.mesh = {{kContextParallel, 4}}}}},
              .surveys = {{"sent", sent_looks(), survey_sizes()}, {"work", work_looks(), survey_sizes()}},
              .headline = Headline{"long", "zigzag ring"},
              .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
