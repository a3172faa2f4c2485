// installs as <tenfold/step_profiler.h>
#pragma once
// torch.profiler's schedule for a training loop in C++: which steps are recorded, with what, and into which file.

#include <c10/util/ScopeExit.h>
#include <kineto/libkineto.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
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

/// Kineto, switched on and off by a schedule, all from one thread. Each cycle overwrites the file of the one before.
/// Kineto runs once in a process: a cycle in which somebody else profiles before its warm-up ends is not recorded.
///
/// A step that throws, and so does not come to end_step(), is not counted, and the schedule stands still, as in Python.
/// When it was being recorded the recording is dropped, because half a step is in it: the cycle begins again.
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
  /// A cycle that is not finished writes no file.
  ~StepProfiler() { discard(); }

  /// Before each training step.
  void begin_step() {
    if (begun_ && state_ == State::recording) {  // the step before threw
      discard();
      place_ = 0;
    }
    begun_ = true;
    if (place_ == 0) skipped_ = false;
    if (state_ == State::off && kineto_is_busy()) skipped_ = true;
    if (skipped_ || place_ < schedule_.wait) return;
    if (state_ == State::off) {
      torch::autograd::profiler::prepareProfiler(config_, activities_);
      state_ = State::ready;
    }
    if (place_ < schedule_.wait + schedule_.warm_up) return;
    if (state_ == State::ready) enable();
    name_ = "ProfilerStep#" + std::to_string(step_);  // as Python's profiler calls it
    label_.emplace(at::RecordScope::USER_SCOPE);
    if (label_->isActive()) label_->before(std::string_view(name_));
  }

  /// After each training step. Throws c10::Error without a begin_step() before it; and, with the profile off, when a
  /// cycle ends whose file cannot be written, or that somebody else has stopped. The next cycle is recorded.
  void end_step() {
    TORCH_CHECK(begun_, "StepProfiler: end_step() without a begin_step() before it");
    begun_ = false;
    label_.reset();
    ++step_;
    place_ = (place_ + 1) % schedule_.steps();
    if (place_ != 0 || state_ != State::recording) return;
    const auto off = c10::make_scope_exit([this] { discard(); });
    // A GPU is behind the host: without this wait the last steps' kernels would be missing.
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
    TORCH_CHECK(torch::autograd::profiler::profilerEnabled(), "StepProfiler: the steps to ProfilerStep#", step_ - 1,
                " are lost, because the profile was stopped elsewhere, or begun on another thread");
    state_ = State::off;
    const auto recorded = torch::autograd::profiler::disableProfiler();
    events_ = recorded->events().size();
    save(*recorded);
  }

  size_t events() const { return events_; }  ///< of the last cycle; 0 before its end
  const std::string& path() const { return path_; }

 private:
  enum class State : uint8_t { off, ready, recording };

  /// Kineto may be somebody else's, on another thread, too. To prepare it then ends in an error, and for all that come
  /// later as well.
  static bool kineto_is_busy() {
    return torch::autograd::profiler::profilerEnabled() ||
           (libkineto::api().isProfilerInitialized() && libkineto::api().activityProfiler().isActive());
  }

  void enable() {
    torch::autograd::profiler::enableProfiler(
        config_, activities_,
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
    state_ = State::recording;
  }

  /// Off, with nothing kept, and Kineto free for others: once prepared it is so only after it was on.
  void discard() noexcept {
    label_.reset();
    try {
      if (state_ == State::ready) enable();
      if (state_ == State::recording && torch::autograd::profiler::profilerEnabled())
        torch::autograd::profiler::disableProfiler();
    } catch (const c10::Error&) {  // somebody else has stopped it
    }
    state_ = State::off;
  }

  /// Throws c10::Error when the file does not hold the whole trace. Kineto says nothing then, and renames its own file
  /// over whatever has the name: a device, or a link.
  void save(torch::autograd::profiler::ProfilerResult& recorded) const {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const fs::file_status status = fs::status(path_, ignored);
    TORCH_CHECK(!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status), "StepProfiler: ", path_,
                " is no ordinary file; name one for the trace");
    errno = 0;
    const bool opened = std::ofstream(path_, std::ios::trunc).is_open();
    TORCH_CHECK(opened, "StepProfiler: the trace cannot be written to ", path_.empty() ? "an empty path" : path_, " (",
                std::strerror(errno), ")");
    const fs::path file = fs::canonical(path_);
    recorded.save(file.string());
    std::string end(2, ' ');
    std::ifstream(file).seekg(-2, std::ios::end).read(end.data(), 2);
    if (end.find('}') != std::string::npos) return;
    fs::remove(file, ignored);
    TORCH_CHECK(false, "StepProfiler: the trace could not be written to ", path_, " as a whole; is there space?");
  }

  torch::Device device_;
  Schedule schedule_;
  torch::autograd::profiler::ProfilerConfig config_;
  std::set<torch::autograd::profiler::ActivityType> activities_{torch::autograd::profiler::ActivityType::CPU};
  std::string path_, name_;
  std::optional<at::RecordFunction> label_;  ///< of the step, while it is recorded
  int64_t step_ = 0, place_ = 0;             ///< steps that have ended; where in its cycle the next one is
  size_t events_ = 0;
  bool begun_ = false;    ///< a step has begun and not ended
  bool skipped_ = false;  ///< this cycle, because somebody else profiles
  State state_ = State::off;
};

}  // namespace tenfold
