// Lesson 55 - Pipeline parallelism
// What does it bring to lay a model's layers on several ranks, and how much of their time is lost to waiting?
// Read pipeline_schedule.h first: a schedule is data that is checked. pipeline.h runs one; through_pipeline() trains
// with it.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "gpt_stage.h"
#include "pipeline.h"
#include "prediction.h"
#include "published_orders.h"
#include "settings.h"
#include "sleeping_stages.h"

namespace {
using tenfold::micro_batches_of;
using tenfold::Pipeline;
using tenfold::PipelineSchedule;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Without the technique: one process has the whole model and processes one micro-batch after another. The other ranks
/// have nothing to do.
Step one_process(const Trial& trial) {
  auto training = tenfold::whole_model(trial);
  auto update = [training, micro_batches = micro_batches_of(trial), idle = trial.rank != 0] {
    if (idle) return Tensor();
    auto [ids, targets] = training->next_batch();  // (B, T) each
    const auto micro_ids = ids.chunk(micro_batches), micro_targets = targets.chunk(micro_batches);
    Tensor total = torch::zeros({}, ids.options().dtype(torch::kFloat));
    training->optimizer->zero_grad();
    for (size_t i = 0; i < micro_ids.size(); ++i) {
      Tensor loss = training->model->loss(training->model->hidden(micro_ids[i]), micro_targets[i]) / micro_batches;
      loss.backward();
      total += loss.detach();
    }
    tenfold::optimizer_step(*training->optimizer);
    return total;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

enum class Mistake { none, divided_twice, updated_between, tied_apart };

/// With it: this rank has its stages of the model alone, and runs their passes in the schedule's order.
Step through_pipeline(const Trial& trial, const PipelineSchedule& schedule, Mistake mistake = Mistake::none) {
  const auto& group = trial.mesh.along(tenfold::kPipeline).group;
  auto model = std::make_shared<tenfold::RankStages>(trial, schedule);
  auto batch = std::make_shared<tenfold::MicroBatches>(trial);
  std::vector<Pipeline::Stage> stages;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    stages.push_back([=](const Tensor& input, int i) {
      if (mistake == Mistake::updated_between) model->update_at_once();  // wrong: earlier micro-batches are under way
      const auto at = static_cast<size_t>(i);
      Tensor result = model->forward(chunk, input, batch->ids[at], batch->targets[at]);
      const bool divide = mistake == Mistake::divided_twice && result.dim() == 0;
      return divide ? result / schedule.micro_batches : result;  // wrong: the pipeline divides the loss
    });
  }
  const std::vector<int64_t> boundary = {trial.get(tenfold::gpt::kBatch) / schedule.micro_batches,
                                         model->options.length, model->options.width};  // (B / micro-batches, T, D)
  const auto options = torch::dtype(torch::kFloat).device(trial.device);
  auto pipeline = std::make_shared<Pipeline>(schedule, group, stages, boundary, options, model->store);
  auto update = [=] {
    batch->next();
    model->optimizer->zero_grad();
    Tensor loss = pipeline->run();  // on the last stage's rank
    if (model->tied && mistake != Mistake::tied_apart) model->add_tied_gradients();
    tenfold::optimizer_step(*model->optimizer);
    model->updated = true;
    return loss;
  };
  return {.items = model->options.batch * model->options.length,
          .parameters = model->parameters,
          .update = update,
          .gather = [model] { return model->gather(); }};
}

/// The ranks of the pipeline. One rank has nobody to send to.
int ranks_of(const Trial& trial) {
  needs_two_ranks(trial);
  return trial.mesh.along(tenfold::kPipeline).size;
}

Step naive(const Trial& trial) {
  return through_pipeline(trial, tenfold::naive_schedule(ranks_of(trial), micro_batches_of(trial)));
}

Step gpipe(const Trial& trial) {
  return through_pipeline(trial, tenfold::gpipe_schedule(ranks_of(trial), micro_batches_of(trial)));
}

template <Mistake mistake = Mistake::none>
Step one_f_one_b(const Trial& trial) {
  const auto schedule = tenfold::one_f_one_b_schedule(ranks_of(trial), micro_batches_of(trial));
  return through_pipeline(trial, schedule, mistake);
}

Step interleaved(const Trial& trial) {
  const int ranks = ranks_of(trial), micro_batches = micro_batches_of(trial);
  if (micro_batches % ranks != 0) trial.skip("the ranks do not divide the micro-batches");
  const auto chunks = static_cast<int>(trial.get(tenfold::kVirtualStages));
  return through_pipeline(trial, tenfold::interleaved_schedule(ranks, micro_batches, chunks));
}

/// 1F1B in which the weights' gradients fill the waiting.
Step zb_h1(const Trial& trial) {
  return through_pipeline(trial, tenfold::zb_h1_schedule(ranks_of(trial), micro_batches_of(trial)));
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kPipeline, kAllRanks}}};
  return run(
      argc, argv,
      {.title = "Pipeline parallelism",
       .question = "What is gained by splitting a model's layers over several ranks, and how much of their time is "
                   "lost to waiting?",
       .workload = gpt_workload,
       .version = 7,
       .settings = {kMicroBatches, kVirtualStages, kTied},
       .baseline = {"one process", one_process},
       .most_bytes = most_bytes,
       .techniques = {{"naive", naive, predict_naive},
                      {"GPipe", gpipe, predict_gpipe},
                      {"1F1B", one_f_one_b<>, predict_one_f_one_b},
                      {"interleaved 1F1B", interleaved, predict_interleaved},
                      {"ZB-H1", zb_h1, predict_zb_h1},
                      {"divided twice", one_f_one_b<Mistake::divided_twice>},
                      {"updated between micro-batches", one_f_one_b<Mistake::updated_between>},
                      {"tied gradients not added", one_f_one_b<Mistake::tied_apart>}},
       .cases = {{.name = "gpt",
                  .expected = {{"naive", SMALLER},
                               {"GPipe", {}},
                               {"1F1B", SMALLER},
                               {"interleaved 1F1B", {}},
                               {"ZB-H1", SMALLER},
                               {"divided twice", TRAP},
                               {"updated between micro-batches", TRAP}},
                  .place = any_ranks},
                 {.name = "many micro-batches",
                  .settings = {gpt::kBatch(32, 16, 32), kMicroBatches(16)},
                  .expected = {{"GPipe", mistake(LARGER)},
                               {"1F1B", {FASTER, SMALLER}},
                               {"interleaved 1F1B", FASTER},
                               {"ZB-H1", {FASTER, SMALLER}}},
                  .place = any_ranks},
                 {.name = "tied embedding",
                  .settings = {kTied(true), gpt::kLayers(2), gpt::kWidth(32), gpt::kHeads(2), gpt::kLength(32)},
                  .expected = {{"1F1B", SMALLER}, {"tied gradients not added", TRAP}},
                  .place = any_ranks},
                 {.name = "one micro-batch",
                  .settings = {kMicroBatches(1), gpt::kLayers(2), gpt::kWidth(16), gpt::kHeads(2), gpt::kLength(8)},
                  .expected = {{"naive", SLOWER}, {"1F1B", SLOWER}},
                  .place = any_ranks}},
       .surveys = {{"bubble on 4 ranks",
                    {{"naive", naive_bubble},
                     {"GPipe", gpipe_bubble},
                     {"1F1B", one_f_one_b_bubble},
                     {"interleaved 1F1B", interleaved_bubble},
                     {"ZB-H1", zb_h1_bubble}}},
                   {"published orders",
                    {{"torchtitan, 512 H100", torchtitan_order}, {"zero-bubble, 8 H800", zero_bubble_order}}}},
       .headline = Headline{"many micro-batches", "1F1B"},
       .agreement = Agreement::within(1e-4, "a tied weight's gradients are added in another order")});
}
