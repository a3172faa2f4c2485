#include "common/measure/split.h"

#include "common/base/seconds_since.h"
#include "common/measure/clock.h"
#include "common/measure/device_split.h"
#include "common/measure/memory.h"
#include "common/measure/observe.h"
#include "common/measure/step.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <vector>

namespace tenfold {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kSteps = "steps";  // the scope around all that is recorded

// State of the CPU pass: one at a time, on the thread that steps.
struct CpuPass {
  Split sum;
  int operators = 0;  // depth
  int named = 0;      // depth of regions with a line of their own
  Clock::time_point operator_begin, region_begin;
};
thread_local CpuPass* pass = nullptr;

double* part_of(const char* name, Split& split) {
  const std::string text = name;
  return text == "data"            ? &split.data
         : text == "copy"          ? &split.copy
         : text == "communication" ? &split.communication
                                   : nullptr;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& fn) {
  if (pass == nullptr) return nullptr;
  if (fn.scope() == at::RecordScope::USER_SCOPE) {
    if (part_of(fn.name(), pass->sum) != nullptr && pass->named++ == 0) pass->region_begin = Clock::now();
  } else if (pass->operators++ == 0 && pass->named == 0) {
    pass->operator_begin = Clock::now();
  }
  return nullptr;
}

void end(const at::RecordFunction& fn, at::ObserverContext*) {
  if (pass == nullptr) return;
  if (fn.scope() == at::RecordScope::USER_SCOPE) {
    double* part = part_of(fn.name(), pass->sum);
    if (part != nullptr && --pass->named == 0) *part += seconds_since(pass->region_begin);
  } else if (--pass->operators == 0 && pass->named == 0) {
    pass->sum.device += seconds_since(pass->operator_begin);
  }
}

Split split_on_cpu(const Step& step, int steps) {
  CpuPass current;
  double seconds = 0;
  {
    const Observe observe(
        pass, current,
        {at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE})});
    seconds = time_block(torch::kCPU, [&] {
      for (int i = 0; i < steps; ++i) step.update();
    });
  }
  Split split = current.sum;
  split.host = std::max(0.0, seconds - split.data - split.device - split.copy - split.communication);
  return split;
}

std::unique_ptr<torch::autograd::profiler::ProfilerResult> record(torch::Device device, const Step& step, int steps) {
  namespace profiler = torch::autograd::profiler;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(profiler::ActivityType::CUDA);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(
      config, activities, {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION});
  try {
    RECORD_USER_SCOPE(kSteps);
    for (int i = 0; i < steps; ++i) step.update();
    synchronize(device);
  } catch (...) {
    profiler::disableProfiler();  // or it would go on with the next variant's steps
    throw;
  }
  return profiler::disableProfiler();
}

// Not yet run on a GPU.
std::optional<Split> split_on_cuda(torch::Device device, const Step& step, int steps) {
  const double seconds = time_block(device, [&] {
    for (int i = 0; i < steps; ++i) step.update();
  });
  const auto profile = record(device, step, steps);
  Span window;
  std::vector<TracedSpan> spans;
  for (const auto& event : profile->events()) {
    const Span span{static_cast<int64_t>(event.startNs()), static_cast<int64_t>(event.endNs())};
    const std::string name = event.name();
    if (name == kSteps && event.deviceType() == c10::DeviceType::CPU) window = span;
    if (const auto activity = activity_of(event.activityType(), name)) spans.push_back({*activity, span});
  }
  return split_of(spans, window, seconds);
}

}  // namespace

std::optional<Split> split_step(torch::Device device, const Step& step, int steps) {
  std::optional<Split> split = device.is_cpu() ? split_on_cpu(step, steps) : split_on_cuda(device, step, steps);
  if (!split) return std::nullopt;
  for (const SplitPart& part : kSplitParts) (*split).*part.seconds /= steps;
  return split;
}

void write_trace(torch::Device device, const Step& step, int steps, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  record(device, step, steps)->save(path);
}

}  // namespace tenfold
