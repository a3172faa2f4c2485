// Lesson 65 - Resume
// What must a checkpoint hold so that a killed training goes on bit for bit, and what does saving cost?
// Read training_checkpoint.h first: it is what is saved. images_training.h trains with all of it, restarts.h forgets
// one part after the other, kills.h kills processes. rank_checkpoints.h has the shards of several ranks.
#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "prediction.h"
#include "restarts.h"
#include "saved_training.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;

/// Without the technique. A step of the harness is `every` updates; its loss is their mean.
Step no_saving(const Trial& trial) {
  return step_of(trial, std::make_shared<SavedRun>(trial), [](SavedRun&) {});
}

/// With it: after these updates training waits until all that it consists of is on the disk.
Step saving(const Trial& trial) {
  return step_of(trial, std::make_shared<SavedRun>(trial), [](SavedRun& run) {
    RECORD_USER_SCOPE("checkpoint");
    run.checkpoints.own().save(run.training->updates(), run.training->state());
  });
}

/// Training waits for a copy of it, which a thread then writes.
Step asynchronous(const Trial& trial) {
  return step_of(trial, std::make_shared<SavedRun>(trial), [](SavedRun& run) {
    RECORD_USER_SCOPE("checkpoint");
    run.background.save(run.training->updates(), run.training->state());
  });
}

/// The process dies after each step, and another goes on from the checkpoint: what was not saved is missing there.
Step resumed(const Trial& trial) { return restarted(trial, Forgotten::nothing); }
Step buffers_forgotten(const Trial& trial) { return restarted(trial, Forgotten::buffers); }
Step optimizer_forgotten(const Trial& trial) { return restarted(trial, Forgotten::optimizer); }
Step scaler_forgotten(const Trial& trial) { return restarted(trial, Forgotten::scaler); }
Step generators_forgotten(const Trial& trial) { return restarted(trial, Forgotten::generators); }
Step place_forgotten(const Trial& trial) { return restarted(trial, Forgotten::place); }
Step place_of_workers(const Trial& trial) { return restarted(trial, Forgotten::delivered); }
Step count_forgotten(const Trial& trial) { return restarted(trial, Forgotten::update_count); }
Step torn_copy(const Trial& trial) { return restarted(trial, Forgotten::copy); }
Step shards_of_rank_0(const Trial& trial) {
  needs_two_ranks(trial);
  return restarted(trial, Forgotten::other_shards);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return run(
      argc, argv,
      {.title = "Resume",
       .question =
           "What must a checkpoint hold so that a killed training goes on bit for bit, and what does saving cost?",
       .workload = convnet_workload,
       .version = 7,
       .settings = {kEvery, kImages, kScale, kGrowth, kKills},
       .baseline = {"no saving", no_saving},
       .most_bytes = most_bytes_of,
       .techniques = {{"saving", saving, predict_saving},
                      {"asynchronous", asynchronous, predict_asynchronous},
                      {"resumed", resumed},
                      {"buffers forgotten", buffers_forgotten},
                      {"optimizer forgotten", optimizer_forgotten},
                      {"scaler forgotten", scaler_forgotten},
                      {"generators forgotten", generators_forgotten},
                      {"place forgotten", place_forgotten},
                      {"place of the workers", place_of_workers},
                      {"update count forgotten", count_forgotten},
                      {"torn copy", torn_copy},
                      {"shards of rank 0", shards_of_rank_0}},
       .cases = {{.name = "convnet", .expected = {{"saving", SAME_MEMORY}, {"asynchronous", SAME_MEMORY}}},
                 {.name = "every update",
                  .settings = convnet_every_update(),
                  .expected = {{"saving", {SLOWER, SAME_MEMORY}}, {"asynchronous", LARGER, on_cuda(SAME_MEMORY)}}},
                 {.name = "resume",
                  .settings = everything_matters(),
                  .expected = {{"resumed", {}},
                               {"buffers forgotten", TRAP},
                               {"optimizer forgotten", TRAP},
                               {"scaler forgotten", TRAP},
                               {"generators forgotten", TRAP},
                               {"place forgotten", TRAP},
                               {"place of the workers", TRAP},
                               {"update count forgotten", TRAP},
                               {"torn copy", TRAP}}},
                 {.name = "shards",
                  .settings = sharded_gpt(),
                  .expected = {{"saving", SAME_MEMORY},
                               {"asynchronous", LARGER, on_cuda(SAME_MEMORY)},
                               {"resumed", {}},
                               {"shards of rank 0", TRAP}},
                  .workload = gpt_workload,
                  .place = {.mesh = {{kDataParallel, kAllRanks}}}}},
       .surveys = {{"pause", {{"saving", pause_of_saving}, {"asynchronous", pause_of_asynchronous}}},
                   {.name = "pause of a large model",
                    .looks = {{"saving", pause_of_saving}, {"asynchronous", pause_of_asynchronous}},
                    .settings = large_convnet()},
                   {.name = "kills",
                    .looks = {{"saving", kills_of_saving}, {"asynchronous", kills_of_asynchronous}},
                    .settings = everything_matters_often_saved()}},
       .headline = Headline{"every update", "saving"},
       .agreement = Agreement::exact_on_cpu()});
}
