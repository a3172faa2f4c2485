// installs as <tenfold/step_profiler.h>
#pragma once
// torch.profiler's schedule for a training loop in C++: which steps are recorded, with what, and into which file.

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace tenfold {

/// What is recorded of an operator, besides its name, its thread, and when it began and ended.
struct ProfileOptions {
  bool shapes = false;  ///< of its inputs, with their types
  bool memory = false;  ///< each block that is allocated or freed
  bool stacks = false;  ///< the lines of TorchScript that called it; in Python those of Python
};

/// A cycle of steps: `wait` of them are left alone, during `warm_up` the tracer is made ready, `active` are recorded.
struct Schedule {
  int64_t wait = 0, warm_up = 1, active = 3;
  int64_t steps() const { return wait + warm_up + active; }
};

/// Kineto, switched on and off by a schedule. Each cycle overwrites the file of the one before. Kineto runs once in a
/// process: while somebody else profiles, nothing is recorded here.
class StepProfiler {
 public:
  StepProfiler(torch::Device device, Schedule schedule, ProfileOptions options, std::string path)
      : device_(device),
        schedule_(schedule),
        config_(torch::autograd::profiler::ProfilerState::KINETO, options.shapes, options.memory, options.stacks),
        path_(std::move(path)) {
    TORCH_CHECK_VALUE(schedule.wait >= 0 && schedule.warm_up >= 0 && schedule.active > 0,
                      "a schedule of wait=", schedule.wait, ", warm_up=", schedule.warm_up,
                      ", active=", schedule.active, ": none may be negative, and a step must be recorded");
    if (device.is_cuda()) activities_.insert(torch::autograd::profiler::ActivityType::CUDA);
  }
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;
  /// A step that threw leaves the profiler on: it would go on with whatever runs next. A cycle that is not finished
  /// writes no file.
  ~StepProfiler() {
    label_.reset();
    if (recording_) torch::autograd::profiler::disableProfiler();
  }

  /// Before each training step.
  void begin_step() {
    const int64_t place = step_ % schedule_.steps();
    const int64_t first = schedule_.wait + schedule_.warm_up;
    if (place == 0) skipped_ = torch::autograd::profiler::profilerEnabled();
    if (skipped_ || place < schedule_.wait) return;
    if (place == schedule_.wait) torch::autograd::profiler::prepareProfiler(config_, activities_);
    if (place < first) return;
    if (place == first) {
      torch::autograd::profiler::enableProfiler(
          config_, activities_,
          {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
      recording_ = true;
    }
    name_ = "ProfilerStep#" + std::to_string(step_);  // as Python's profiler calls it
    label_.emplace(at::RecordScope::USER_SCOPE);
    if (label_->isActive()) label_->before(std::string_view(name_));
  }

  /// After each training step. Throws when a cycle ends and its file cannot be written.
  void end_step() {
    label_.reset();
    if (++step_ % schedule_.steps() != 0 || !recording_) return;
    recording_ = false;
    // A GPU is behind the host: without this wait the last steps' kernels would be missing.
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
    const auto recorded = torch::autograd::profiler::disableProfiler();
    events_ = recorded->events().size();
    recorded->save(path_);
  }

  size_t events() const { return events_; }  ///< of the last cycle; 0 before its end
  const std::string& path() const { return path_; }

 private:
  torch::Device device_;
  Schedule schedule_;
  torch::autograd::profiler::ProfilerConfig config_;
  std::set<torch::autograd::profiler::ActivityType> activities_{torch::autograd::profiler::ActivityType::CPU};
  std::string path_, name_;
  std::optional<at::RecordFunction> label_;  ///< of the step, while it is recorded
  int64_t step_ = 0;
  size_t events_ = 0;
  bool recording_ = false, skipped_ = false;
};

}  // namespace tenfold
