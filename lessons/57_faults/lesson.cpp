// Lesson 57 - Faults
// A rank dies, hangs or differs: who notices, after how long, and is the resumed training the same training?
// Read atomic_checkpoint.h first, then resume.h: what is saved, and how. same_on_ranks.h finds a rank that differs,
// monitored_barrier.h names one that is missing. tests/ranks/fault_test.cpp kills, stops and restarts real processes.
#include "common/harness/lesson.h"
#include "atomic_checkpoint.h"
#include "background_checkpoint.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "prediction.h"
#include "restarts.h"
#include "resume.h"
#include "same_on_ranks.h"
#include "saved_training.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: data parallel training. A step of the harness is `every` updates; its loss is their mean.
Step no_checkpoints(const Trial& trial) {
  auto training = std::make_shared<SavedTraining>(trial);
  auto updates = [training, every = trial.get(kEvery)] { return training->update(every); };
  return {tokens_of_step(trial), training->parameters(), updates};
}

/// With it: after these updates rank 0 saves what all ranks have, and training waits.
Step checkpoint(const Trial& trial) {
  auto training = std::make_shared<SavedTraining>(trial);
  auto folder = std::make_shared<SharedFolder>(trial);
  auto updates = [training, folder, every = trial.get(kEvery), rank = trial.rank] {
    const Tensor loss = training->update(every);
    RECORD_USER_SCOPE("checkpoint");
    if (rank == 0) folder->checkpoints().save(training->updates, training->state());
    return loss;
  };
  return {tokens_of_step(trial), training->parameters(), updates};
}

/// Training waits for a copy, which a thread then writes.
Step background(const Trial& trial) {
  auto training = std::make_shared<SavedTraining>(trial);
  auto saver = std::make_shared<BackgroundFolder>(trial);
  auto updates = [training, saver, every = trial.get(kEvery), rank = trial.rank] {
    const Tensor loss = training->update(every);
    RECORD_USER_SCOPE("checkpoint");
    if (rank == 0) saver->checkpoints.save(training->updates, training->state());
    return loss;
  };
  const auto park = [saver](bool stop) {
    if (stop) saver->checkpoints.finish();  // what is still to be written belongs to these steps
  };
  return {.items = tokens_of_step(trial), .parameters = training->parameters(), .update = updates, .park = park};
}

/// After these updates all ranks compare a hash of their parameters; structure and order of the data at the start.
Step same_on_ranks(const Trial& trial) {
  needs_two_ranks(trial);
  auto training = std::make_shared<SavedTraining>(trial);
  require_same_on_ranks("the model", hash_of_structure(*training->model), trial.device, *trial.group);
  require_same_on_ranks("seed or data", hash_of({training->sampler.state()}), trial.device, *trial.group);
  auto updates = [training, every = trial.get(kEvery), device = trial.device, group = trial.group] {
    const Tensor loss = training->update(every);
    require_same_parameters(*training, device, *group);
    return loss;
  };
  return {tokens_of_step(trial), training->parameters(), updates};
}

/// All ranks die after each step, and go on from the checkpoint: what was not saved is missing in the next one.
Step restarted(const Trial& trial, Mistake mistake) {
  auto ranks = std::make_shared<Restarts>(trial, mistake);
  auto updates = [ranks, every = trial.get(kEvery)] {
    if (ranks->training().updates > 0) ranks->save_and_restart();
    return ranks->training().update(every);
  };
  const auto gather = [ranks] {
    Gathered whole{ranks->training().parameters(), Parameters()};
    for (const auto& item : whole.parameters) whole.gradients.insert(item.key(), item.value().grad());
    return whole;
  };
  return {.items = tokens_of_step(trial),
          .parameters = ranks->training().parameters(),
          .update = updates,
          .gather = gather};
}

Step resumed(const Trial& trial) { return restarted(trial, Mistake::none); }
Step optimizer_forgotten(const Trial& trial) { return restarted(trial, Mistake::optimizer_forgotten); }
Step sampler_anew(const Trial& trial) { return restarted(trial, Mistake::sampler_anew); }
Step torn_file(const Trial& trial) { return restarted(trial, Mistake::torn_file); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kDataParallel, kAllRanks}}};
  return run(
      argc, argv,
      {.title = "Faults",
       .question = "A rank dies, hangs or differs: who notices, after how long, and is the resumed training the same "
                   "training?",
       .workload = gpt_workload,
       .version = 5,
       .settings = {kEvery, kBucketKib},
       .baseline = {"no checkpoints", no_checkpoints},
       .most_bytes = saved_most_bytes,
       .techniques = {{"checkpoint", checkpoint, predict_checkpoint},
                      {"in the background", background, predict_background},
                      {"same on ranks", same_on_ranks, predict_same},
                      {"resumed", resumed},
                      {"optimizer forgotten", optimizer_forgotten},
                      {"sampler anew", sampler_anew},
                      {"torn file", torn_file}},
       .cases =
           {{.name = "gpt",
             .expected = {{"checkpoint", SAME_MEMORY},
                          {"in the background", LARGER, on_cuda(SAME_MEMORY)},
                          {"same on ranks", SAME_MEMORY}},
             .place = any_ranks},
            {.name = "every update",
             .settings = states_every_update(),
             .expected = {{"checkpoint", SLOWER}, {"in the background", {}}, {"same on ranks", SLOWER}},
             .place = any_ranks},
            {.name = "resume",
             .settings = small_model(),
             .expected = {{"resumed", {}}, {"optimizer forgotten", TRAP}, {"sampler anew", TRAP}, {"torn file", TRAP}},
             .place = any_ranks}},
       .surveys = {{"interval", {{"checkpoint", foreground_interval}, {"in the background", background_interval}}},
                   {"at scale", {{"8 G, one node", one_node}, {"405 G, 16,384 GPUs", llama_3}}},
                   {"lost rank", {{"it ends", rank_ends}, {"it hangs", rank_hangs}}}},
       .headline = Headline{"gpt", "checkpoint"},
       .agreement = Agreement::exact_on_cpu()});
}
