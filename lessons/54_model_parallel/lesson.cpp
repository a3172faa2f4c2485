// Lesson 54 - Tensor parallelism
// Is a tensor-parallel model right, what does it send, and what does it save?
// Read tensor_parallel.h first: layers that are cut along their outputs and along their inputs, with one collective
// after each pair. sequence_parallel.h divides the tokens between them, vocabulary_parallel.h the embedding and the
// loss. clip_sharded.h clips the gradients' norm.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "common/models/momentum_sgd.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "parallel_gpt.h"
#include "prediction.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: one process has the whole model. The other ranks have nothing to do.
Step one_process(const Trial& trial) {
  auto training = whole_model(trial);
  auto update = [training, idle = trial.rank != 0, max_norm = trial.get(kMaxNorm)] {
    if (idle) return Tensor();
    const auto [ids, targets] = training->next_batch();  // (B, T) each
    training->optimizer->zero_grad();
    Tensor loss = training->model->loss(training->model->hidden(ids), targets);
    loss.backward();
    if (max_norm > 0) torch::nn::utils::clip_grad_norm_(training->model->parameters(), max_norm);
    optimizer_step(*training->optimizer);
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// With it: the ranks along "tp" share the layers of one model and see the same batch. Along "dp", if the mesh has it,
/// they share the batch.
Step divided(const Trial& trial, Division division) {
  const auto& along = trial.mesh.along(kTensorParallel);
  const GptOptions options = gpt_options(trial);
  const auto data = data_parallel_place(trial);
  skip_unless_divisible(trial, options, along.size, data.size);
  division.how.group = TensorGroup(along.group);
  Gpt whole(options);  // drawn alike on all ranks
  cut_vocabulary(*whole, vocabulary_of(options, trial.get(kVocabulary)));
  auto model = std::make_shared<ParallelGpt>(whole, division);
  model->to(trial.device);
  auto batches = std::make_shared<Batches>(trial, options, data.index, data.size);
  std::shared_ptr<torch::optim::Optimizer> optimizer = sgd(model->parameters(), options.learning_rate);
  auto update = [=, group = data.group, max_norm = trial.get(kMaxNorm)] {
    const auto [ids, targets] = batches->next();  // (B / data ranks, T) each
    optimizer->zero_grad();
    Tensor loss = model->loss(ids, targets);
    loss.backward();
    model->sum_replicated_gradients();  // of sequence parallelism
    if (group) average_in_buckets(model->parameters(), assign_buckets(model->parameters(), {}), *group);
    model->clip_gradients(max_norm);
    optimizer_step(*optimizer);
    return loss;
  };
  return {.items = options.batch * options.length,
          .parameters = model->named_parameters(),
          .update = update,
          .gather = [model] { return model->gather(); }};
}

Step tensor_parallel_step(const Trial& trial) { return divided(trial, {}); }
Step vocabulary_parallel_step(const Trial& trial) { return divided(trial, {.vocabulary = true}); }
Step sequence_parallel_step(const Trial& trial) {
  return divided(trial, {.how = {.sequence = true}, .vocabulary = true});
}
/// Layers keep their own tokens alone.
Step gathered_again(const Trial& trial) {
  return divided(trial, {.how = {.sequence = true, .gather_again = true}, .vocabulary = true});
}

// All four are no mistakes on one rank.
Step norm_not_summed(const Trial& trial) {
  needs_two_ranks(trial);
  return divided(trial, {.how = {.sequence = true}, .vocabulary = true, .mistake = Mistake::norm_not_summed});
}
Step bias_on_every_rank(const Trial& trial) {
  needs_two_ranks(trial);
  return divided(trial, {.mistake = Mistake::bias_on_every_rank});
}
Step padding_counted(const Trial& trial) {
  needs_two_ranks(trial);
  return divided(trial, {.vocabulary = true, .mistake = Mistake::padding_counted});
}
Step norm_of_own_part(const Trial& trial) {
  needs_two_ranks(trial);
  return divided(trial, {.how = {.sequence = true}, .vocabulary = true, .mistake = Mistake::norm_of_own_part});
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kTensorParallel, kAllRanks}}};
  return run(argc, argv,
             {.title = "Tensor parallelism",
              .question = "Is a tensor-parallel model right, what does it send, and what does it save?",
              .workload = gpt_workload,
              .version = 6,
              .settings = {kVocabulary, kDataRanks, kMaxNorm},
              .baseline = {"one process", one_process},
              .techniques = {{"tensor parallel", tensor_parallel_step, predict_tensor_parallel},
                             {"vocabulary parallel", vocabulary_parallel_step, predict_vocabulary_parallel},
                             {"sequence parallel", sequence_parallel_step, predict_sequence_parallel},
                             {"gathered again", gathered_again, predict_gathered_again},
                             {"norm not summed", norm_not_summed},
                             {"bias on every rank", bias_on_every_rank},
                             {"padding counted", padding_counted},
                             {"norm of own part", norm_of_own_part}},
              .cases = {{.name = "gpt",
                         .expected = {{"tensor parallel", SMALLER},
                                      {"vocabulary parallel", SMALLER},
                                      {"sequence parallel", SMALLER},
                                      {"gathered again", SMALLER}},
                         .place = any_ranks},
                        {.name = "wide",
                         .settings = wide_model(),
                         .expected = {{"tensor parallel", {FASTER, SMALLER}}, {"gathered again", SMALLER}},
                         .place = any_ranks},
                        {.name = "narrow",
                         .settings = narrow_model(),
                         .expected = {{"tensor parallel", SLOWER},
                                      {"gathered again", SLOWER},
                                      {"norm not summed", TRAP},
                                      {"bias on every rank", TRAP},
                                      {"padding counted", TRAP},
                                      {"norm of own part", TRAP}},
                         .place = any_ranks},
                        {.name = "data x tensor",
                         .settings = on_two_by_two(),
                         .expected = {{"gathered again", {}}},
                         .place = {.mesh = {{kDataParallel, 2}, {kTensorParallel, 2}}}}},
              .surveys = {{"states", state_looks(), survey_sizes()},
                          {"sent", sent_looks(), survey_sizes()},
                          {"kept", kept_looks(), survey_sizes()}},
              .headline = Headline{"wide", "tensor parallel"},
              .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
