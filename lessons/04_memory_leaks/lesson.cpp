// Lesson 04 - Memory leaks
// Why does memory grow from step to step, and which line holds it?
// Read healthy() first, then what each function behind it does otherwise: the same update, the same numbers, and one
// line that keeps something. find_leak() has the watch of leak_watch.h look for it.
#include "common/harness/lesson.h"
#include "leak_watch.h"
#include "loop.h"
#include "other_loops.h"
#include "prediction.h"
#include "surveys.h"

namespace {
using tenfold::Loop;
using tenfold::Trial;
using torch::Tensor;

/// An update that keeps two numbers of itself: its loss and the validation loss after it, both without a graph.
void healthy(Loop& loop) {
  auto [images, labels] = loop.next_batch();  // (B, 1, 28, 28), (B)
  loop.optimizer->zero_grad();
  Tensor loss = loop.training_loss(images, labels);
  loss.backward();  // frees what the graph has kept
  loop.optimizer->step();
  loop.losses.push_back(loss.detach());
  const torch::NoGradGuard no_grad;
  loop.validation.push_back(loop.validation_loss());
}

/// Looks like the classic leak, and is none of tensors: backward() has freed them. The graph's nodes stay.
void trained_loss_kept(Loop& loop) {
  auto [images, labels] = loop.next_batch();
  loop.optimizer->zero_grad();
  Tensor loss = loop.training_loss(images, labels);
  loss.backward();
  loop.optimizer->step();
  loop.losses.push_back(loss);  // with its graph
  const torch::NoGradGuard no_grad;
  loop.validation.push_back(loop.validation_loss());
}

/// The classic leak: nobody calls backward() on a validation loss, so its graph keeps every activation.
void validation_graph_kept(Loop& loop) {
  auto [images, labels] = loop.next_batch();
  loop.optimizer->zero_grad();
  Tensor loss = loop.training_loss(images, labels);
  loss.backward();
  loop.optimizer->step();
  loop.losses.push_back(loss.detach());
  loop.validation.push_back(loop.validation_loss());  // no NoGradGuard, no detach()
}

/// retain_graph, as an error message suggests it: backward() frees nothing, and then the loss is kept.
void graph_retained(Loop& loop) {
  auto [images, labels] = loop.next_batch();
  loop.optimizer->zero_grad();
  Tensor loss = loop.training_loss(images, labels);
  loss.backward(/*gradient=*/{}, /*retain_graph=*/true);
  loop.optimizer->step();
  loop.losses.push_back(loss);
  const torch::NoGradGuard no_grad;
  loop.validation.push_back(loop.validation_loss());
}

/// All transformed batches in one list, as a widely read article prepares them.
void batches_kept(Loop& loop) {
  loop.kept_batches.push_back(loop.next_batch());
  auto [images, labels] = loop.kept_batches.back();
  loop.optimizer->zero_grad();
  Tensor loss = loop.training_loss(images, labels);
  loss.backward();
  loop.optimizer->step();
  loop.losses.push_back(loss.detach());
  const torch::NoGradGuard no_grad;
  loop.validation.push_back(loop.validation_loss());
}

/// A hook that is registered in every step, captures the step's images, and is never removed.
void hook_holds(Loop& loop) {
  auto [images, labels] = loop.next_batch();
  loop.hooks.push_back(loop.model->head->weight.register_hook([images = images](const Tensor& gradient) {
    TORCH_CHECK(gradient.defined(), "no gradient for ", images.size(0), " images");
  }));
  loop.optimizer->zero_grad();
  Tensor loss = loop.training_loss(images, labels);
  loss.backward();
  loop.optimizer->step();
  loop.losses.push_back(loss.detach());
  const torch::NoGradGuard no_grad;
  loop.validation.push_back(loop.validation_loss());
}

/// Runs a loop until the watch has found its leak.
void find_leak(const Trial& trial, tenfold::Update update) {
  tenfold::prefer_small_steps();
  tenfold::LeakWatch watch(trial.device);
  Loop loop(trial);
  for (int64_t step = 1; step <= trial.get(tenfold::kWatched); ++step) {
    update(loop);
    if (const auto leak = watch.step()) return tenfold::note_leak(trial, *leak);
  }
  TORCH_CHECK(false, "the watch found no leak in ", trial.get(tenfold::kWatched), " steps");
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const Assignment small_batch = convnet::kBatch(4), few_channels = convnet::kChannels(4);
  const auto with = [](void (*note)(const Trial&, Update), Update update) {
    return [=](const Trial& trial) { note(trial, update); };
  };
  return run(
      argc, argv,
      {.title = "Memory leaks",
       .question = "Why does memory grow from step to step, and which line holds it?",
       .workload = convnet_workload,
       .version = 3,
       .settings = {kUpdates, kWatched},
       .baseline = {"healthy", epochs_of(healthy)},
       .most_bytes = loop_most_bytes,
       .techniques = {{"trained loss kept", epochs_of(trained_loss_kept), keeps_no_tensors},
                      {"validation graph kept", epochs_of(validation_graph_kept), keeps_validation_graphs},
                      {"graph retained", epochs_of(graph_retained), keeps_training_graphs},
                      {"batches kept", epochs_of(batches_kept), keeps_batches},
                      {"hook holds", epochs_of(hook_holds), keeps_images},
                      {"detached too early", epochs_of(detached_too_early)}},
       .cases = {{"convnet",
                  {},
                  {{"validation graph kept", mistake(LARGER)},
                   {"graph retained", mistake(LARGER)},
                   {"detached too early", TRAP}}},
                 {"long epoch",
                  {small_batch, convnet::kChannels(8), kUpdates(16)},
                  {{"trained loss kept", SAME_MEMORY},
                   {"validation graph kept", mistake(LARGER)},
                   {"graph retained", mistake(LARGER)},
                   {"batches kept", mistake(LARGER)},
                   {"hook holds", mistake(LARGER)}}},
                 // A leak does not show in one update; a graph that backward() does not free does.
                 {"one update",
                  {small_batch, convnet::kChannels(8), kUpdates(1)},
                  {{"validation graph kept", SAME_MEMORY},
                   {"graph retained", mistake(LARGER)},
                   {"batches kept", SAME_MEMORY},
                   {"hook holds", SAME_MEMORY}}}},
       .surveys = {{"leaks, watched",
                    {{"validation graph kept", with(find_leak, validation_graph_kept)},
                     {"graph retained", with(find_leak, graph_retained)},
                     {"batches kept", with(find_leak, batches_kept)},
                     {"hook holds", with(find_leak, hook_holds)},
                     {"outputs of all sizes kept", with(find_leak, outputs_kept)},
                     {"every 50th graph kept", with(find_leak, every_50th_graph_kept)}},
                    {small_batch, few_channels}},
                   {"no leaks, watched",
                    {{"healthy", with(count_alarms, healthy)},
                     {"trained loss kept", with(count_alarms, trained_loss_kept)},
                     {"batches of all sizes", with(count_alarms, batches_of_all_sizes)},
                     {"best weights kept", with(count_alarms, best_weights_kept)},
                     {"64 recent outputs", with(count_alarms, recent_outputs)},
                     {"epochs of 16 outputs", with(count_alarms, outputs_of_an_epoch)}},
                    {small_batch, few_channels}},
                   {"what the nodes take",
                    {{"healthy", with(note_growth, healthy)},
                     {"trained loss kept", with(note_growth, trained_loss_kept)}},
                    {small_batch, few_channels}},
                   {"what a watch costs", {{"small steps", with(note_cost, healthy)}}, {small_batch, few_channels}},
                   {"profiler", {{"as printed", profiled_as_printed}, {"with memory", profiled_with_memory}}}},
       .headline = Headline{"convnet", "validation graph kept"}});
}
