// Lesson 64 - Optimizers
// Which optimizer reaches a loss in the fewest updates and in the least time, and what does its state cost?
// Read muon.h first: it is the technique. lion.h and schedule_free.h are two others; derivative_free.h searches without
// a gradient. trained.h has the step and the schedule that all share, settings.h the rates.
#include "common/harness/lesson.h"
#include "lion.h"
#include "most_bytes.h"
#include "muon.h"
#include "prediction.h"
#include "schedule_free.h"
#include "settings.h"
#include "surveys.h"
#include "trained.h"
#include "wrong_variants.h"

namespace {
using namespace tenfold;

/// The baseline: LibTorch's.
Trained adamw(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  return {work, {adamw_of(trial, work.parameters.values(), trial.get(kAdamWRate))}};
}

/// Two optimizers: Muon for the hidden matrices, AdamW for the rest.
Trained muon(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  return with_muon(trial, work, split_for_muon(*work.model, not_hidden(trial)), muon_options(trial));
}

/// The same split; the hidden matrices' updates are orthogonal on average.
Trained shampoo(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  return with_shampoo(trial, work, split_for_muon(*work.model, not_hidden(trial)));
}

Trained lion(const Trial& trial) { return lion_at(trial, trial.get(kLionRate)); }

Trained schedule_free(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  const auto options = ScheduleFreeAdamWOptions(trial.get(kScheduleFreeRate))
                           .betas({0.9, trial.get(kBeta2)})
                           .weight_decay(trial.get(kWeightDecay))
                           .warmup_steps(trial.get(kUpdates) / 10);
  const auto optimizer = std::make_shared<ScheduleFreeAdamW>(work.parameters.values(), options);
  return {work, {optimizer}, optimizer, /*schedule_free=*/true};
}

template <int percent>
Trained sgd(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  const auto options = torch::optim::SGDOptions(trial.get(kMomentumRate)).momentum(percent / 100.0);
  return {work, {std::make_shared<torch::optim::SGD>(work.parameters.values(), options)}};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  // Other optimizers' first losses differ little. Muon's most where a batch is one text, schedule-free AdamW's rate is
  // still small; a rate that is far too large shows at once.
  const auto trained = Agreement::judged_by("quality", 0.1);
  const auto warming_up = Agreement::judged_by("quality", 0.2);
  const auto too_large = Agreement::judged_by("quality", 0.05);
  const auto step = [](Make make) { return [make](const Trial& trial) { return step_of(make(trial)); }; };
  // Stated beforehand: a hundredth of a GPT's loss, less than seeds of one optimizer differ by; of the loss on images,
  // which differs more, three; between parts of one method, which share all else, half of one.
  const Metric loss{.name = "validation loss", .margin = 0.01, .relative = true};
  const Metric small_difference{.name = "held-out loss", .margin = 0.005, .relative = true};
  return run(
      argc, argv,
      {.title = "Optimizers",
       .question = "Which optimizer reaches a loss in the fewest updates and in the least time, and what does its "
                   "state cost?",
       .workload = gpt_workload,
       .version = 4,
       .settings = {kAdamWRate, kMuonRate, kShampooRate, kLionRate, kScheduleFreeRate, kMomentumRate, kBeta2,
                    kWeightDecay, kNativeBf16, kUpdates, kEvaluations, kSeconds, kRuns, kTarget},
       .baseline = {"AdamW", step(adamw)},
       .most_bytes = adamw_most_bytes,
       .techniques = {{"Muon", step(muon), predict_muon, trained},
                      {"schedule-free", step(schedule_free), predict_schedule_free, warming_up},
                      {"AdamW at Muon's rate", step(adamw_at_muons_rate), nullptr, too_large}},
       .cases = {{"gpt", {}, {{"Muon", {SLOWER, SMALLER}}, {"AdamW at Muon's rate", TRAP}}},
                 {"few tokens", few_tokens(), {{"Muon", {SLOWER, SMALLER}}, {"schedule-free", SAME_MEMORY}}},
                 {"convnet", narrow(), {{"Muon", {SAME_SPEED, SAME_MEMORY}}}, convnet_workload}},
       .trainings = {{.name = "quality",
                      .metric = loss,
                      .runs = {{"AdamW", to_the_end(adamw)},
                               {"Muon", to_the_end(muon), NOT_WORSE},
                               {"Shampoo", to_the_end(shampoo), NOT_WORSE},
                               {"Lion", to_the_end(lion), WORSE},
                               {"schedule-free", to_the_end(schedule_free), NOT_WORSE},
                               {"momentum", to_the_end(sgd<90>)},
                               {"Lion at AdamW's rate", to_the_end(lion_at_adamws_rate), WORSE},
                               {"AdamW at Muon's rate", to_the_end(adamw_at_muons_rate), WORSE}},
                      .settings = gpt::affordable()},
                     {.name = "images",
                      .metric = {.name = "loss on unseen images", .margin = 0.03, .relative = true},
                      .runs = {{"AdamW", to_the_end(adamw)},
                               {"Muon", to_the_end(muon), NOT_WORSE},
                               {"Shampoo", to_the_end(shampoo), NOT_WORSE},
                               {"Lion", to_the_end(lion)},
                               {"schedule-free", to_the_end(schedule_free), NOT_WORSE},
                               {"momentum", to_the_end(sgd<90>)}},
                      .settings = images(),
                      .workload = mlp_workload},
                     {.name = "parts of Muon",
                      .metric = small_difference,
                      .runs = {{"Muon", to_the_end(muon)},
                               {"on all matrices", to_the_end(muon_on_all), WORSE},
                               {"not orthogonal", to_the_end(not_orthogonal), WORSE}},
                      .settings = gpt::affordable()},
                     {.name = "evaluated where",
                      .metric = {.name = "held-out loss", .margin = 0.001, .relative = true},  // of the same training
                      .runs = {{"the mean", to_the_end(schedule_free)},
                               {"not switched", to_the_end(not_switched<schedule_free>), WORSE}},
                      .settings = gpt::affordable()}},
       .surveys = with_search(
           {{"state",
             {state_look("SGD", sgd<0>, sgd<0>, sgd_state), state_look("momentum", sgd<90>, sgd<0>, momentum_state),
              state_look("AdamW", adamw, sgd<0>, adamw_state), state_look("Muon", muon, sgd<0>, muon_state),
              state_look("Shampoo", shampoo, sgd<0>, shampoo_state), state_look("Lion", lion, sgd<0>, lion_state),
              state_look("schedule-free", schedule_free, sgd<0>, schedule_free_state)},
             few_tokens(),
             /*of_memory=*/true},
            {"update",
             {update_look("SGD", sgd<0>), update_look("momentum", sgd<90>), update_look("AdamW", adamw),
              update_look("Muon", muon), update_look("Lion", lion), update_look("schedule-free", schedule_free)},
             gpt::affordable()},
            {"to a target",
             {target_look("AdamW", adamw, 1), target_look("momentum", sgd<90>, 0.75), target_look("Muon", muon, 0.375),
              target_look("Shampoo", shampoo, 0.5), target_look("Lion", lion, 1.5),
              target_look("schedule-free", schedule_free, 0.5)},
             gpt::affordable({kUpdates(80)})}}),
       .headline = Headline{"quality", "Muon"}});
}
