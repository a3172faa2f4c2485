#include "trace_surveys.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numbers>
#include <utility>

#include "common/measure/clock.h"
#include "common/models/mlp.h"
#include "common/result/statistics.h"
#include "profiled_training.h"
#include "trace_file.h"

namespace tenfold::inline lesson_01 {
namespace {

using torch::Tensor;
namespace profiler = torch::autograd::profiler;

/// Seconds of the parts of one profile of `updates` updates, and what it left.
struct ProfileParts {
  double alone = 0, recorded = 0, stopped = 0;  ///< of an update without a profiler, with it; of stopping and saving
  size_t events = 0;
  int64_t bytes = 0;
};

ProfileParts parts_of_profile(const Trial& trial, MlpTraining& work, ProfileOptions options, int64_t updates) {
  const TraceFile file;
  StepProfiler recorder(trial.device, {.wait = 0, .warm_up = 0, .active = updates}, options, file.path());
  const auto seconds_of = [&](const std::function<void()>& part) { return time_block(trial.device, part); };
  ProfileParts parts;
  parts.alone = seconds_of([&] {
    for (int64_t i = 0; i < updates; ++i) update(work);
  });
  for (int64_t i = 0; i < updates; ++i) {
    recorder.begin_step();
    parts.recorded += seconds_of([&] { update(work); });
    parts.stopped = seconds_of([&] { recorder.end_step(); });  // the last one's counts: it stops and saves
  }
  parts.events = recorder.events();
  parts.bytes = file.bytes();
  return parts;
}

void note_price(const Trial& trial, ProfileOptions options) {
  constexpr int64_t kUpdates = 5;
  MlpTraining work(trial);
  parts_of_profile(trial, work, options, kUpdates);  // warm
  std::vector<double> recorded, stopped, all, of_none;
  ProfileParts with;
  for (int round = 0; round < 7; ++round) {
    with = parts_of_profile(trial, work, options, kUpdates);
    const ProfileParts none = parts_of_profile(trial, work, {}, kUpdates);
    const auto added = [](const ProfileParts& parts) { return parts.recorded + parts.stopped - parts.alone; };
    recorded.push_back(with.recorded / with.alone);
    stopped.push_back(with.stopped / with.alone);
    all.push_back(added(with) / static_cast<double>(kUpdates));
    of_none.push_back(added(with) / added(none));
  }
  trial.note("update, recorded / alone", median(recorded), "x");
  trial.note("stopping and saving / update", median(stopped), "x");
  trial.note("added to an update", 1e3 * median(all), "ms");
  trial.note("added / added without options", median(of_none), "x");
  trial.note("events of an update", static_cast<double>(with.events) / kUpdates, "events");
  trial.note("trace of an update", static_cast<double>(with.bytes) / kUpdates, "bytes");
}

/// What a profile leaves behind: on a GPU Kineto stays attached to CUPTI, whose callbacks are then called at each
/// launch with every profile off. So this is the first look of the lesson.
void note_after_the_first(const Trial& trial) {
  if (libkineto::api().isProfilerInitialized()) trial.skip("a profile has run in this process before");
  constexpr int64_t kUpdates = 20;
  MlpTraining work(trial);
  const auto seconds_of_updates = [&] {
    std::vector<double> seconds;
    for (int round = 0; round < 9; ++round) {
      seconds.push_back(time_block(trial.device, [&] {
        for (int64_t i = 0; i < kUpdates; ++i) update(work);
      }));
    }
    return median(seconds) / static_cast<double>(kUpdates);
  };
  seconds_of_updates();  // warm
  const double before = seconds_of_updates();
  parts_of_profile(trial, work, {}, 1);
  seconds_of_updates();
  const double after = seconds_of_updates();
  trial.note("update, before any profile", 1e3 * before, "ms");
  trial.note("update after the first profile / before", after / before, "x");
}

void note_length(const Trial& trial, int64_t updates) {
  MlpTraining work(trial);
  update(work);
  const ProfileParts parts = parts_of_profile(trial, work, {}, updates);
  trial.note("events", static_cast<double>(parts.events), "events");
  trial.note("trace", static_cast<double>(parts.bytes), "bytes");
  trial.note("trace of an update", static_cast<double>(parts.bytes) / static_cast<double>(updates), "bytes");
}

/// Nanoseconds of a label around nothing.
double label_ns(int64_t labels) {
  const double seconds = time_block(torch::kCPU, [&] {
    for (int64_t i = 0; i < labels; ++i) {
      RECORD_USER_SCOPE("label");
    }
  });
  return 1e9 * seconds / static_cast<double>(labels);
}

void note_unheard(const Trial& trial) {
  std::vector<double> nanoseconds;
  for (int round = 0; round < 9; ++round) nanoseconds.push_back(label_ns(20'000));
  trial.note("label", median(nanoseconds), "ns");
}

void note_heard(const Trial& trial, profiler::ProfilerState listener) {
  const profiler::ProfilerConfig config(listener);
  const std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
  std::vector<double> nanoseconds;
  for (int round = 0; round < 9; ++round) {
    if (listener == profiler::ProfilerState::KINETO) profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities, {at::RecordScope::USER_SCOPE});
    nanoseconds.push_back(label_ns(2'000));
    profiler::disableProfiler();
  }
  trial.note("label", median(nanoseconds), "ns");
}

/// Images (B, 1, 28, 28), each turned by an angle of its own.
Tensor turned(const Tensor& images) {
  const Tensor angles =
      (torch::rand({images.size(0)}, images.options()) - 0.5) * (std::numbers::pi / 6);  // +-15 degrees
  const Tensor zero = torch::zeros_like(angles);
  const Tensor turn = torch::stack(
      {torch::stack({angles.cos(), -angles.sin(), zero}, 1), torch::stack({angles.sin(), angles.cos(), zero}, 1)}, 1);
  const Tensor large = torch::upsample_bilinear2d(images, {112, 112}, /*align_corners=*/false);
  const Tensor grid = torch::affine_grid_generator(turn, large.sizes(), /*align_corners=*/false);  // (B, 112, 112, 2)
  return torch::avg_pool2d(torch::grid_sampler(large, grid, 0, 0, /*align_corners=*/false), {4, 4});
}

void note_reading(const Trial& trial, bool rotated) {
  if (!trial.device.is_cpu())
    trial.skip("reads the host's threads; on a GPU the gaps in its stream's row tell, which this reader does not know");
  const TraceFile file;
  const std::string keep = trial.get(kKeep);
  if (!keep.empty()) std::filesystem::create_directories(keep);
  const std::string name = rotated ? "rotated_in_the_loop.json" : "images_as_they_are.json";
  const std::string path = keep.empty() ? file.path() : (std::filesystem::path(keep) / name).string();
  const TraceSummary found = summarise(trace_of_training(trial, rotated, path));
  const auto waiting = std::count_if(found.data_shares.begin(), found.data_shares.end(),
                                     [](double share) { return share > kInputBoundShare; });
  trial.note("recorded step", found.step_us / 1e3, "ms");
  trial.note("of it waiting for data", 100 * found.data_share(), "%");
  trial.note("input-bound steps", static_cast<double>(waiting), "of " + std::to_string(found.data_shares.size()));
  trial.note("speed at best with one worker", found.best_speed_up(), "x");
  trial.note("threads that ran operators", static_cast<double>(found.cpu_threads.size()), "threads");
}

}  // namespace

std::vector<TraceEvent> trace_of_training(const Trial& trial, bool rotated, const std::string& path) {
  MlpTraining work(trial);
  constexpr int64_t kWarm = 3, kTraced = 5;
  StepProfiler recorder(trial.device, {.wait = kWarm - 1, .warm_up = 1, .active = kTraced}, {}, path);
  for (int64_t i = 0; i < kWarm + kTraced; ++i) {
    recorder.begin_step();
    Tensor images, labels;
    {
      RECORD_USER_SCOPE("data");
      std::tie(images, labels) = work.next_batch();
      if (rotated) images = turned(images);
    }
    work.optimizer->zero_grad();
    Tensor loss;
    {
      RECORD_USER_SCOPE("forward");
      loss = torch::cross_entropy_loss(work.model(images), labels);
    }
    {
      RECORD_USER_SCOPE("backward");
      loss.backward();
    }
    {
      RECORD_USER_SCOPE("optimizer");
      work.optimizer->step();
    }
    recorder.end_step();
  }
  return read_trace(path);
}

std::vector<Look> price_of_options() {
  const auto price = [](ProfileOptions options) {
    return [options](const Trial& trial) { note_price(trial, options); };
  };
  return {{"the first profile", note_after_the_first}, {"no option", price({})},
          {"shapes", price({.shapes = true})},         {"memory", price({.memory = true})},
          {"stacks", price({.stacks = true})},         {"all options", price(kAllOptions)}};
}

std::vector<Look> growing_traces() {
  std::vector<Look> looks;
  for (const int64_t updates : {1, 10, 100})
    looks.push_back({std::to_string(updates) + (updates == 1 ? " update" : " updates"),
                     [updates](const Trial& trial) { note_length(trial, updates); }});
  return looks;
}

std::vector<Look> price_of_labels() {
  return {{"nobody listens", note_unheard},
          {"Kineto records", [](const Trial& trial) { note_heard(trial, profiler::ProfilerState::KINETO); }},
          {"NVTX marks", [](const Trial& trial) {
             if (!trial.device.is_cuda()) trial.skip("needs a CUDA device: NVTX's marks are for Nsight Systems");
             note_heard(trial, profiler::ProfilerState::NVTX);
           }}};
}

std::vector<Look> input_bound_steps() {
  return {{"images as they are", [](const Trial& trial) { note_reading(trial, false); }},
          {"rotated in the loop", [](const Trial& trial) { note_reading(trial, true); }}};
}

}  // namespace tenfold::inline lesson_01
