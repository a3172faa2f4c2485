// Lesson 25 - CUDA graphs
// What does a training step gain when the host launches it as one graph instead of kernel by kernel?
// Read whole_step() and captured_step.h first: what is captured, and what has to stay where it is. Then no_copy() and
// frozen_step(), which leave that out.
#include "common/harness/lesson.h"
#include "batch_training.h"
#include "captured_step.h"
#include "graph_surveys.h"
#include "prediction.h"

namespace {
using namespace tenfold;
using torch::Tensor;
using Update = std::function<void()>;

/// A training step on a batch. Nothing in it asks the device for a value.
Tensor train(const BatchTraining& work, const Update& update, const Batch& batch) {
  work.drop_gradients();
  Tensor loss = work.differentiate(batch);
  RECORD_USER_SCOPE("optimizer");
  update();
  return loss;
}

Step step_of(const BatchTraining& work, std::function<Tensor()> update) {
  return {.items = work.items, .parameters = work.parameters, .update = std::move(update)};
}

void needs_cuda(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("needs a CUDA device");
}

/// The baseline: the host launches each kernel by itself.
Step one_by_one(const Trial& trial) {
  const BatchTraining work = batch_training(trial);
  return step_of(work, [work] { return train(work, work.update, work.next_batch()); });
}

/// The form that can be captured, still launched one by one: the step reads the batch at the same addresses each time.
Step copied(const BatchTraining& work, torch::Device device, const Update& update) {
  return step_of(work, [work, update, inputs = std::make_shared<StaticInputs>(device)] {
    const Batch& batch = inputs->fill(work.next_batch());  // what was copied is freed here
    return train(work, update, batch);
  });
}

Step static_buffers(const Trial& trial) {
  const BatchTraining work = batch_training(trial);
  return copied(work, trial.device, work.update);
}

/// With a step number and a learning rate on the device.
Step capturable_adamw(const Trial& trial) {
  const BatchTraining work = batch_training(trial);
  return copied(work, trial.device, work.capturable_update);
}

/// With it: forward, backward and update are one launch. The batch is made and copied outside.
Step capture(const BatchTraining& work, torch::Device device, const Update& update) {
  auto step =
      std::make_shared<CapturedStep>(device, [work, update](const Batch& batch) { return train(work, update, batch); });
  return step_of(work, [work, step] { return (*step)(work.next_batch()); });
}

Step whole_step(const Trial& trial) {
  needs_cuda(trial);
  const BatchTraining work = batch_training(trial);
  return capture(work, trial.device, work.capturable_update);
}

/// A part of the step: the update is one launch, all else is launched as before. The graph reads the gradients where
/// they were at the capture, so they are zeroed and added to, and never replaced.
Step optimizer_alone(const Trial& trial) {
  needs_cuda(trial);
  const BatchTraining work = batch_training(trial);
  auto update = std::make_shared<CapturedWork>(trial.device, work.capturable_update);
  return step_of(work, [work, update] {
    const Batch batch = work.next_batch();
    work.zero_gradients();
    Tensor loss = work.differentiate(batch);
    RECORD_USER_SCOPE("optimizer");
    update->run();
    return loss;
  });
}

/// A trap: the loop has a new batch, in new tensors. The graph reads those that it was captured with.
Step no_copy(const Trial& trial) {
  const BatchTraining work = batch_training(trial);
  auto loss = std::make_shared<Tensor>();
  auto step = std::make_shared<CapturedWork>(
      trial.device, [work, loss, first = work.next_batch()] { *loss = train(work, work.update, first).detach(); });
  return step_of(work, [work, loss, step] {
    step->run();
    const Batch next = work.next_batch();  // which nobody copies to where `first` is
    return *loss;
  });
}

/// A trap: LibTorch's AdamW counts its steps on the host, and a replay has the corrections of the captured step.
Step frozen_step(const Trial& trial) {
  needs_cuda(trial);
  const BatchTraining work = batch_training(trial);
  return capture(work, trial.device, work.update);
}

template <Step (*build)(const Trial&)>
void count_operators(const Trial& trial) {
  note_operators(trial, build(trial));
}
template <Step (*build)(const Trial&)>
void count_peaks(const Trial& trial) {
  note_peaks(trial, build);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Agreement rounding = Agreement::within(1e-4, "AdamW's corrections are rounded in other places");
  return run(
      argc, argv,
      {.title = "CUDA graphs",
       .question = "What does a training step gain when the host launches it as one graph instead of kernel by kernel?",
       .workload = mlp_workload,
       .version = 6,
       .settings = {kOptimizer},
       .baseline = {"launched one by one", one_by_one},
       .most_bytes = graphs_most_bytes,
       .techniques = {{"static buffers", static_buffers, copied_batch},
                      {"capturable AdamW", capturable_adamw, nullptr, rounding},
                      {"whole step", whole_step, one_launch, rounding},
                      {"optimizer alone", optimizer_alone, update_in_one_launch, rounding},
                      {"no copy", no_copy},
                      {"frozen step", frozen_step, nullptr, rounding}},
       .cases = {{.name = "mlp",
                  .expected = {{"static buffers", LARGER, on_cuda()},
                               {"whole step", {}, on_cuda(FASTER)},
                               {"no copy", TRAP}},
                  .judged_peak = "reserved"},
                 {.name = "adamw",
                  .settings = {kOptimizer("adamw")},
                  .expected = {{"capturable AdamW", {}},
                               {"optimizer alone", {}, on_cuda(FASTER)},
                               {"whole step", {}, on_cuda(FASTER)},
                               {"frozen step", TRAP}},
                  .judged_peak = "reserved"},
                 // Of the size that a CPU has, on any card.
                 {.name = "small gpt",
                  .settings = {gpt::kLayers(6), gpt::kWidth(64), gpt::kHeads(4), gpt::kLength(64), gpt::kBatch(8),
                               gpt::kTokens("characters")},
                  .expected = {{"whole step", {}, on_cuda(FASTER)}},
                  .workload = gpt_workload,
                  .judged_peak = "reserved"},
                 // A GPU computes longer than the host launches.
                 {.name = "gpt",
                  .expected = {{"static buffers", {SAME_SPEED, SAME_MEMORY}, on_cuda(SAME_SPEED)},
                               {"whole step", {}, on_cuda({SAME_SPEED, LARGER})}},
                  .workload = gpt_workload,
                  .judged_peak = "reserved"}},
       .surveys = {{.name = "operators", .looks = {{"launched one by one", count_operators<one_by_one>}}},
                   {.name = "waits", .looks = lines_that_wait()},
                   {.name = "peaks",
                    .looks = {{"launched one by one", count_peaks<one_by_one>},
                              {"whole step", count_peaks<whole_step>}},
                    .of_memory = true,
                    .workload = gpt_workload}},
       .headline = Headline{"mlp", "whole step"}});
}
