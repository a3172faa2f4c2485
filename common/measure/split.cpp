#include <tenfold/split.h>

#include <tenfold/clock.h>
#include <tenfold/lesson.h>
#include <tenfold/memory.h>
#include <tenfold/observe.h>

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <vector>

namespace tenfold {
namespace {

using Clock = std::chrono::steady_clock;

// State of the CPU pass: one at a time, on the thread that steps.
struct CpuPass {
  Split sum;
  int operators = 0;  // depth
  int named = 0;      // depth of regions with a line of their own
  Clock::time_point operator_begin, region_begin;
};
thread_local CpuPass* pass = nullptr;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double* part_of(const char* name, Split& split) {
  const std::string text = name;
  return text == "data" ? &split.data : text == "copy" ? &split.copy : text == "communication" ? &split.communication : nullptr;
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
    if (part != nullptr && --pass->named == 0) *part += since(pass->region_begin);
  } else if (--pass->operators == 0 && pass->named == 0) {
    pass->sum.device += since(pass->operator_begin);
  }
}

Split split_on_cpu(const Step& step, int steps) {
  CpuPass current;
  double seconds = 0;
  {
    const Observe observe(pass, current,
                          {at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE})});
    seconds = time_block(torch::kCPU, [&] {
      for (int i = 0; i < steps; ++i) step.fn();
    });
  }
  Split split = current.sum;
  split.host = std::max(0.0, seconds - split.data - split.device - split.copy - split.communication);
  return split;
}

using Span = std::pair<int64_t, int64_t>;  // begin and end, in ns

// Joins overlapping spans; kernels of several streams run at the same time.
std::vector<Span> joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() && span.first <= result.back().second) {
      result.back().second = std::max(result.back().second, span.second);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

double length(const std::vector<Span>& spans) {
  double sum = 0;
  for (const auto& [from, to] : spans) sum += static_cast<double>(to - from) / 1e9;
  return sum;
}

std::unique_ptr<torch::autograd::profiler::ProfilerResult> record(torch::Device device, const Step& step, int steps) {
  namespace profiler = torch::autograd::profiler;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(profiler::ActivityType::CUDA);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities,
                           {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION});
  try {
    for (int i = 0; i < steps; ++i) step.fn();
    synchronize(device);
  } catch (...) {
    profiler::disableProfiler();  // or it would go on with the next variant's steps
    throw;
  }
  return profiler::disableProfiler();
}

// From Kineto's device activities. Not yet run on a GPU.
Split split_on_cuda(torch::Device device, const Step& step, int steps) {
  const double seconds = time_block(device, [&] {
    for (int i = 0; i < steps; ++i) step.fn();
  });
  const auto profile = record(device, step, steps);
  std::vector<Span> kernels, copies, collectives;
  double data = 0;
  for (const auto& event : profile->events()) {
    const Span span{static_cast<int64_t>(event.startNs()), static_cast<int64_t>(event.startNs() + event.durationNs())};
    const std::string name = event.name();
    if (event.deviceType() == c10::DeviceType::CUDA) {
      (name.find("nccl") != std::string::npos ? collectives : name.rfind("Memcpy", 0) == 0 ? copies : kernels).push_back(span);
    } else if (name == "data") {
      data += static_cast<double>(event.durationNs()) / 1e9;
    }
  }
  // What runs beside kernels is hidden: only the part of copies and collectives that nothing overlaps counts as theirs.
  const double device_seconds = length(joined(kernels));
  std::vector<Span> with_copies = kernels;
  with_copies.insert(with_copies.end(), copies.begin(), copies.end());
  const double copied = length(joined(with_copies));
  with_copies.insert(with_copies.end(), collectives.begin(), collectives.end());
  const double all = length(joined(with_copies));
  Split split{.data = data, .device = device_seconds, .copy = copied - device_seconds, .communication = all - copied};
  split.host = std::max(0.0, seconds - split.data - split.device - split.copy - split.communication);
  return split;
}

}  // namespace

Split split_step(torch::Device device, const Step& step, int steps) {
  Split split = device.is_cpu() ? split_on_cpu(step, steps) : split_on_cuda(device, step, steps);
  for (double* part : {&split.data, &split.host, &split.device, &split.copy, &split.communication}) *part /= steps;
  return split;
}

void write_trace(torch::Device device, const Step& step, int steps, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  record(device, step, steps)->save(path);
}

}  // namespace tenfold
