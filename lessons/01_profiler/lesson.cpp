// Lesson 01 - The profiler
// What does a profile of training cost, option by option, and how does its trace show a step that waits for its input?
// Read scheduled() first: it is how a profiler belongs into a training loop; step_profiler.h is the profiler. The
// reader of traces is trace_reader.h, and trace_surveys.cpp records what it reads.
#include "common/harness/lesson.h"
#include "prediction.h"
#include "profiled_training.h"
#include "step_profiler.h"
#include "trace_file.h"
#include "trace_surveys.h"

namespace {
using tenfold::kRecorded;
using tenfold::kWindow;
using tenfold::labelled_update;
using tenfold::MlpTraining;
using tenfold::ProfileOptions;
using tenfold::Schedule;
using tenfold::Step;
using tenfold::StepProfiler;
using tenfold::TraceFile;
using tenfold::Trial;
using tenfold::update;
using tenfold::window_of;
using torch::Tensor;

/// Nothing observes the training.
Step no_profiler(const Trial& trial) {
  auto work = std::make_shared<MlpTraining>(trial);
  return window_of(trial, work, [work] { return update(*work); });
}

/// A profiler in the training loop: it is told where each step begins and ends, and a schedule says which it records.
Step profiled(const Trial& trial, Schedule schedule, ProfileOptions options) {
  auto work = std::make_shared<MlpTraining>(trial);
  auto file = std::make_shared<TraceFile>();
  auto profiler = std::make_shared<StepProfiler>(trial.device, schedule, options, file->path());
  return window_of(trial, work, [work, file, profiler] {
    profiler->begin_step();
    Tensor loss = update(*work);
    profiler->end_step();  // after the last recorded one: stops, and saves the trace
    return loss;
  });
}

/// A few steps of many. The longer the window, the less of its cost is left.
Step scheduled(const Trial& trial, ProfileOptions options) {
  const int64_t window = trial.get(kWindow), active = trial.get(kRecorded);
  TORCH_CHECK_VALUE(active > 0 && active < window, "recorded=", active,
                    " must be 1 or more, and below window=", window);
  return profiled(trial, {.wait = window - 1 - active, .warm_up = 1, .active = active}, options);
}

Step schedule(const Trial& trial) { return scheduled(trial, {}); }
Step shapes(const Trial& trial) { return scheduled(trial, {.shapes = true}); }
Step memory(const Trial& trial) { return scheduled(trial, {.memory = true}); }
Step stacks(const Trial& trial) { return scheduled(trial, {.stacks = true}); }
Step all_options(const Trial& trial) { return scheduled(trial, tenfold::kAllOptions); }

/// The mistake, as a widely read article prints it: the whole training within the profiler. Its trace grows with every
/// step, and what stopping costs grows with it.
Step every_step(const Trial& trial) {
  return profiled(trial, {.wait = 0, .warm_up = 0, .active = trial.get(kWindow)}, {});
}

/// Labels, and nobody who listens.
Step labels(const Trial& trial) {
  auto work = std::make_shared<MlpTraining>(trial);
  return window_of(trial, work, [work] { return labelled_update(*work); });
}

/// The trap: what a profiler's tutorial has in its loop stays there. It leaves the loop when the profile is over, and
/// the training ends with it.
Step break_left_in(const Trial& trial) {
  const Schedule schedule{.wait = 1, .warm_up = 1, .active = trial.get(kRecorded)};
  auto work = std::make_shared<MlpTraining>(trial);
  auto file = std::make_shared<TraceFile>();
  auto profiler = std::make_shared<StepProfiler>(trial.device, schedule, ProfileOptions{}, file->path());
  Step step = no_profiler(trial);
  step.parameters = work->parameters();
  step.update = [work, file, profiler, schedule, window = trial.get(kWindow)] {
    Tensor loss;
    for (int64_t i = 0; i < window; ++i) {
      if (i >= schedule.steps()) break;  // wrong: the other steps of the window are never trained
      profiler->begin_step();
      loss = update(*work);
      profiler->end_step();
    }
    return loss;
  };
  return step;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  silence_profilers_logs();
  const Expect dearer{SLOWER, SAME_MEMORY}, free_of_cost{SAME_SPEED, SAME_MEMORY};
  return run(argc, argv,
             {.title = "The profiler",
              .question = "What does a profile of training cost, option by option, and how does its trace show a step "
                          "that waits for its input?",
              .workload = mlp_workload,
              .version = 5,
              .core = true,
              .settings = {kWindow, kRecorded, kKeep},
              .baseline = {"no profiler", no_profiler},
              .most_bytes = window_bytes,
              .techniques = {{"schedule", schedule, scheduled_profile({})},
                             {"shapes", shapes, scheduled_profile({.shapes = true})},
                             {"memory", memory, scheduled_profile({.memory = true})},
                             {"stacks", stacks, scheduled_profile({.stacks = true})},
                             {"all options", all_options, scheduled_profile(kAllOptions)},
                             {"every step", every_step, whole_profile},
                             {"labels", labels, unheard_labels},
                             {"break left in", break_left_in}},
              .cases = {{"mlp",
                         {},
                         {{"schedule", dearer},
                          {"shapes", dearer},
                          {"memory", dearer},
                          {"stacks", dearer},
                          {"all options", dearer},
                          {"every step", mistake(dearer)},
                          {"labels", free_of_cost},
                          {"break left in", TRAP}}},
                        // Few operators, each of them long.
                        {"large matmuls",
                         {mlp::kLayers(3), mlp::kWidth(1024, 4096, 8192), mlp::kBatch(256, 8192, 8192), kWindow(4)},
                         {{"schedule", SAME_MEMORY}}}},
              .surveys = {{"price of an option", price_of_options()},
                          {"a trace grows", growing_traces()},
                          {"price of a label", price_of_labels()},
                          {"find the input-bound step", input_bound_steps()}},
              .headline = Headline{"mlp", "schedule"}});
}
