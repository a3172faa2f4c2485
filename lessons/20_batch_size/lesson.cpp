// Lesson 20 - Batch size
// Which batch trains fastest, which is the largest that fits, and what does a larger one not give?
// Read batch_search.h first: it is the technique. search_first() uses it; the three variants behind it are how a search
// goes wrong. The surveys search under memory budgets that byte_budget.h enforces, and time batches.
#include "common/harness/lesson.h"
#include "batch_search.h"
#include "by_utilisation.h"
#include "common/measure/byte_budget.h"
#include "prediction.h"
#include "same_images.h"
#include "survey.h"
#include "training.h"

namespace {
using tenfold::budget_bytes;
using tenfold::ByteBudget;
using tenfold::FashionBatches;
using tenfold::Step;
using tenfold::training_step;
using tenfold::Trial;

/// Without the technique: the case's own batch, and no search.
Step own_batch(const Trial& trial) { return training_step(trial, trial.get(tenfold::convnet::kBatch)); }

/// The largest batch in so many bytes, by training. The first update of a model makes its optimizer state, so only
/// the second needs as much as all that follow.
tenfold::LargestBatch search(const Trial& trial, int64_t bytes, int updates = 2) {
  const ByteBudget budget(trial.device, bytes);
  tenfold::TriedTraining tried(trial);  // another model than the one that is trained afterwards
  return tenfold::largest_batch(
      trial.device, /*limit=*/1 << 20, [&](int64_t batch) { tried.train(batch, updates); }, bytes);
}

/// With it: the search runs out of memory several times, recovers, and leaves nothing behind. What is trained after it,
/// here with the case's own batch, is the same training.
Step search_first(const Trial& trial) {
  const tenfold::LargestBatch found = search(trial, budget_bytes(trial));
  trial.note("largest batch in the budget", static_cast<double>(found.batch), "images");
  trial.note("tries", static_cast<double>(found.tries), "batches");
  trial.note("tries out of memory", static_cast<double>(found.out_of_memory), "batches");
  return own_batch(trial);
}

/// A trap: the search trains the model that is then to be trained.
Step search_on_the_model(const Trial& trial) {
  auto training = std::make_shared<tenfold::FashionTraining>(trial);
  {
    const ByteBudget budget(trial.device, budget_bytes(trial));
    tenfold::largest_batch(trial.device, 1 << 20, [&](int64_t batch) {
      FashionBatches batches(trial, batch);
      for (int i = 0; i < 2; ++i) training->update(batches);  // wrong: these updates stay
    });
  }
  auto batches = std::make_shared<FashionBatches>(trial, trial.get(tenfold::convnet::kBatch));
  return {batches->batch(), training->parameters, [=] { return training->update(*batches); }};
}

/// Trains with a batch that was found for the budget, in the budget: where the search was wrong, memory runs out here.
Step train_found(const Trial& trial, int64_t batch) {
  trial.note("batch", static_cast<double>(batch), "images");
  {
    const ByteBudget budget(trial.device, budget_bytes(trial));
    tenfold::TriedTraining(trial).train(batch, /*updates=*/2);
  }
  return training_step(trial, batch);
}

/// Exceeds the budget: a search that trains a single update never sees a forward pass with the optimizer's state.
Step one_update(const Trial& trial) {
  return train_found(trial, search(trial, budget_bytes(trial), /*updates=*/1).batch);
}

/// Exceeds it, too: article D's search runs the forward pass alone.
Step by_utilisation(const Trial& trial) {
  return train_found(trial, tenfold::search_by_utilisation(trial, budget_bytes(trial), /*was_full=*/true));
}

/// Of the survey: the batch found in so many quarters of the budget, next to those of a formula and two articles.
tenfold::Look in_quarters(const std::string& name, int64_t quarters) {
  return {name, [quarters](const Trial& trial) {
            const int64_t bytes = budget_bytes(trial) / 4 * quarters;
            if (!trial.device.is_cpu() && bytes < (64 << 20))
              trial.skip("a GPU's allocator takes 20 MiB at a time: budgets below 64 MiB are searched on a CPU");
            tenfold::note_budget(trial, bytes, search(trial, bytes));
          }};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  // Wide layers: parameters, gradients and momentum are each larger than the activations of a batch of 64.
  const std::vector<Assignment> states_fill = {mlp::kWidth(256, 4096, 8192), mlp::kBatch(32, 512, 4096),
                                               kBudget(5, 1232, 4928)};
  return run(
      argc, argv,
      {.title = "Batch size",
       .question = "Which batch trains fastest, which is the largest that fits, and what does a larger one not "
                   "give?",
       .workload = convnet_workload,
       .version = 5,
       .settings = {kBudget, kImages},
       .baseline = {"own batch", own_batch},
       .techniques = {{"search first", search_first, nothing_is_left},
                      {"search on the model", search_on_the_model},
                      {"one update", one_update},
                      {"by utilisation", by_utilisation}},
       .cases = {{"convnet", {}, {{"search first", {SAME_SPEED, SAME_MEMORY}}, {"search on the model", TRAP}}},
                 {.name = "model states",
                  .settings = states_fill,
                  .expected = {{"search first", SAME_MEMORY}, {"one update", EXCEEDS}, {"by utilisation", EXCEEDS}},
                  .workload = mlp_workload}},
       .trainings = {{.name = "same images",
                      .metric = {.name = "test loss", .margin = 0.02, .relative = true},
                      .runs = {{"batch 64", train_with_batch(64)},
                               {"batch 256", train_with_batch(256), WORSE},
                               {"batch 256, 4x learning rate", train_with_batch(256, /*times_rate=*/4)}}}},
       .surveys = {{"largest batch",
                    {in_quarters("a small budget", 1), in_quarters("a medium budget", 4),
                     in_quarters("a large budget", 12)},
                    /*settings=*/{},
                    /*of_memory=*/true},
                   {.name = "largest batch, model states",
                    .looks = {in_quarters("the budget", 4)},
                    .settings = {mlp::kWidth(256, 4096, 8192), kBudget(5, 1232, 4928)},
                    .of_memory = true,
                    .workload = mlp_workload},
                   {"rate by batch",
                    {{"convnet", rates_of_convnet},
                     {"gpt", rates_of_gpt},
                     {"mlp", rates_of_mlp},
                     {"one convolution", rates_of_convolution}}}},
       .headline = Headline{"convnet", "search first"}});
}
