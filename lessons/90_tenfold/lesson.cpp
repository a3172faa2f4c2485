// Lesson 90 - Tenfold
// Ten times faster, by six ways and four more: what does each bring, in this order, and on top of all others?
// Read levers.h first: the order. trainer.h is the training loop with all levers in it; pictures.h and texts.h are the
// two pipelines.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/result/lever_gains.h"
#include "levers.h"
#include "pictures.h"
#include "prediction.h"
#include "texts.h"
#include "to_the_end.h"

namespace {
using namespace tenfold;

/// One step of the pipeline that the case names. `last` is the lever that a variant is about.
Step step_with(const Trial& trial, const Levers& levers, const Lever* last) {
  const bool pictures = trial.workload == pictures_workload;
  if (trial.get(kOneGpu) != 0 && !trial.device.is_cuda())
    trial.skip("needs a CUDA device: without one two ranks are two cores");
  if (last != nullptr && last->why_no_step != nullptr) trial.skip(last->why_no_step);
  if (last != nullptr && last->why_no_texts != nullptr && !pictures) trial.skip(last->why_no_texts);
  if (last != nullptr && (last->pulled == &Levers::ranks || last->pulled == &Levers::sharded)) needs_two_ranks(trial);
  if (!pictures && levers.packed && levers.sixteen_bits && trial.device.is_cuda() && !packs_bfloat16(trial.device))
    trial.skip("packed attention takes bfloat16 from compute capability 8.0 on");
  return pictures ? picture_step(trial, levers) : text_step(trial, levers);
}

/// As it is written first: loaded in the loop, one process, 32 bits, validated as it is trained.
Step naive(const Trial& trial) { return step_with(trial, {}, nullptr); }

/// The trap: a script's batch size is that of one process, and with two ranks an update sees twice as many images. More
/// images a second, and another training.
Step batch_each(const Trial& trial) {
  if (trial.workload != pictures_workload) trial.skip("as in case convnet");
  needs_two_ranks(trial);
  Levers levers = stack_of(2);
  levers.batch_each = true;
  return picture_step(trial, levers);
}

/// The levers one on top of the other, "+ workers" to "+ no waiting"; then all of them but one.
std::vector<Variant> all_stacks() {
  const Agreement order = Agreement::within(1e-4, "sums in another order");
  // 0.8 to 0.97 of 8e-3 was seen on one CPU, by which of its instructions multiplies; a skipped update moves 0.15.
  // On 4 ranks it was 6.1e-3, as on 2: rounding each operator's result weighs more than the order of sums.
  const Agreement bits = Agreement::within(1.4e-2, "bf16 has 8 significant bits");
  std::vector<Variant> stacks;
  const auto add = [&](const std::string& name, const Levers& levers, const Lever& lever) {
    stacks.push_back({name, [levers, &lever](const Trial& trial) { return step_with(trial, levers, &lever); },
                      by_parts(levers), levers.sixteen_bits ? bits : order});
  };
  for (size_t i = 0; i < kLevers.size(); ++i) add(stack_up_to(kLevers[i].name), stack_of(i + 1), kLevers[i]);
  for (size_t i = 0; i + 1 < kLevers.size(); ++i) {
    if (kLevers[i].pulled != nullptr) add(stack_without(kLevers[i].name), all_but(kLevers[i]), kLevers[i]);
  }
  stacks.push_back({"ranks, a batch each", batch_each});
  return stacks;
}

/// What each lever brings depends on the machine; but files that must be decoded are loaded better by threads.
std::vector<Expectation> expected_of_pictures() {
  std::vector<Expectation> expected;
  for (const Variant& stack : all_stacks()) expected.push_back({stack.name, {}});
  expected.front().expect = expect::FASTER;
  expected.back().expect = expect::TRAP;
  return expected;
}

/// What a single process can pull.
Levers all_alone() {
  Levers levers = stack_of(kLevers.size());
  levers.ranks = levers.sharded = false;
  return levers;
}

std::vector<Run> runs_of(Learned (*train)(const Trial&, const Way&)) {
  const auto run = [train](const Way& way) { return [train, way](const Trial& trial) { return train(trial, way); }; };
  return {{"naive", run({})},
          {"16 bits", run({.levers = {.sixteen_bits = true}}), expect::Quality::not_worse},
          {"early stopping", run({.stops = true}), expect::Quality::not_worse},
          {"all, one process", run({.levers = all_alone(), .stops = true}), expect::Quality::not_worse}};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kDataParallel, kAllRanks}}};
  const Metric unseen{.name = "loss on unseen data", .margin = 0.05, .relative = true};
  return run(
      argc, argv,
      {.title = "Tenfold",
       .question =
           "An article promises ten times by six techniques: what do they bring together, and what do four more?",
       .workload = pictures_workload,
       .version = 10,
       .settings = {kWorkers, kOneGpu, kUpdates, kEvery, kPatience},
       .baseline = {"naive", naive},
       .techniques = all_stacks(),
       .cases = {{.name = "convnet", .expected = expected_of_pictures(), .place = any_ranks},
                 {.name = "gpt", .workload = texts_workload, .place = any_ranks},
                 // Several ranks on a machine with one GPU would leave it idle.
                 {.name = "convnet, one GPU", .settings = {kOneGpu(1)}},
                 {.name = "gpt, one GPU", .settings = {kOneGpu(1)}, .workload = texts_workload}},
       .trainings = {{.name = "convnet to the end", .metric = unseen, .runs = runs_of(train_pictures)},
                     {.name = "gpt to the end",
                      .metric = unseen,
                      .runs = runs_of(train_texts),
                      .settings = {kUpdates(64, 2000, 5000), kEvery(3, 100, 250)},
                      .workload = texts_workload}},
       .headline = Headline{"convnet", "+ no waiting"},
       .agreement = Agreement::within(1e-4, "sums in another order")});
}
