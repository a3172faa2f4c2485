#include "common/measure/counted.h"

#include "common/base/seconds_since.h"
#include "common/measure/clock.h"
#include "common/measure/memory.h"
#include "common/measure/observe.h"
#include "common/measure/step.h"

#include <torch/csrc/profiler/util.h>

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTimedSteps = 5;

// A moment of the step: on a CPU now; on CUDA when the device gets there, so that no region waits for the device. The
// time between two of them is then what a region takes of the device's time, with the host's work it had to wait for.
struct Mark {
  Clock::time_point host;
#ifdef TENFOLD_WITH_CUDA
  std::shared_ptr<at::cuda::CUDAEvent> device;  // null on a CPU
#endif
};

Mark mark(torch::Device device) {
  Mark mark{.host = Clock::now()};
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) {
    mark.device = std::make_shared<at::cuda::CUDAEvent>(cudaEventDefault);
    mark.device->record(c10::cuda::getCurrentCUDAStream(device.index()));
  }
#else
  (void)device;
#endif
  return mark;
}

double host_seconds_between(const Mark& begin, const Mark& end) {
  return std::chrono::duration<double>(end.host - begin.host).count();
}

/// Both must have been reached.
double seconds_between(const Mark& begin, const Mark& end) {
#ifdef TENFOLD_WITH_CUDA
  if (begin.device) return begin.device->elapsed_time(*end.device) / 1e3;
#endif
  return host_seconds_between(begin, end);
}

// The observers of one counting pass. RecordFunction callbacks are plain function pointers, so the pass in progress is
// found through this pointer; there is one at a time.
struct Pass {
  torch::Device device;
  Counted* counted;
  struct Open {
    std::string name;
    int64_t live = 0, highest = 0;
    Mark begin = {};
  };
  std::vector<Open> open;
  struct Timed {
    std::string name;
    Mark begin, end;
  };
  std::vector<Timed> timed;
  int64_t highest = 0;  // live bytes over the whole pass; each region resets the allocator's own peak
  int depth = 0;        // of operators, so that an operator called by another is not counted twice
  int in_product = 0;   // operators that are open and whose arithmetic is known: what they call is part of it
};
Pass* pass = nullptr;  // not thread-local: backward() of a CUDA model runs on autograd's own thread
std::mutex guard;      // of the pointer and of what it points to

// What a callback finds: the pass, locked while the callback lasts. None between passes, and for the region that a
// collective opens by itself: it ends on a thread of the transport, maybe after the step.
struct Found {
  explicit Found(const at::RecordFunction& fn) : lock(guard), none(pass == nullptr || fn.isAsync()) {}
  std::scoped_lock<std::mutex> lock;
  bool none;
};

struct Nothing final : at::ObserverContext {};
struct OperatorWork final : at::ObserverContext {
  bool outermost = false, product = false;
  double flops = 0;
  double bytes = 0;
};

double bytes_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() && tensor.has_storage()
               ? static_cast<double>(tensor.numel()) * static_cast<double>(tensor.element_size())
               : 0;
  }
  double sum = 0;
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) sum += bytes_of(tensor);
  }
  return sum;
}

void add_to_regions(double flops, double bytes, int64_t operators) {
  auto add = [&](Region& region) {
    region.flops += flops;
    region.operator_bytes += bytes;
    region.operators += operators;
  };
  add(pass->counted->whole);
  std::map<std::string, bool> seen;  // a region may be open twice (nested calls of one name)
  for (const auto& open : pass->open) {
    if (!std::exchange(seen[open.name], true)) add(pass->counted->regions[open.name]);
  }
}

std::unique_ptr<at::ObserverContext> operator_begin(const at::RecordFunction& fn) {
  const Found found(fn);
  if (found.none) return std::make_unique<Nothing>();
  auto work = std::make_unique<OperatorWork>();
  work->outermost = pass->depth++ == 0;
  if (work->outermost) {
    for (const auto& input : fn.inputs()) work->bytes += bytes_of(input);
  }
  // linear() has no formula, the addmm() that it calls has.
  if (pass->in_product == 0) {
    work->flops =
        static_cast<double>(torch::profiler::impl::computeFlops(fn.name(), torch::profiler::impl::saveExtraArgs(fn)));
  }
  work->product = work->flops > 0;
  if (work->product) ++pass->in_product;
  return work;
}

void operator_end(const at::RecordFunction& fn, at::ObserverContext* context) {
  const Found found(fn);
  if (found.none) return;
  --pass->depth;
  if (auto* work = dynamic_cast<OperatorWork*>(context)) {
    if (work->product) --pass->in_product;
    if (work->outermost) {
      for (const auto& output : fn.outputs()) work->bytes += bytes_of(output);
    }
    if (work->outermost || work->flops > 0) add_to_regions(work->flops, work->bytes, work->outermost ? 1 : 0);
  }
}

// Hands the allocator's peak since the last reset to the innermost open region, or to the pass.
void note_peak() {
  int64_t& highest = pass->open.empty() ? pass->highest : pass->open.back().highest;
  highest = std::max(highest, peak_bytes(pass->device));
}

std::unique_ptr<at::ObserverContext> memory_begin(const at::RecordFunction& fn) {
  const Found found(fn);
  if (!found.none) {
    note_peak();
    pass->open.push_back({fn.name(), live_bytes(pass->device)});
    reset_peak(pass->device);
  }
  return std::make_unique<Nothing>();
}

void memory_end(const at::RecordFunction& fn, at::ObserverContext*) {
  const Found found(fn);
  if (found.none || pass->open.empty()) return;
  note_peak();
  const Pass::Open open = std::move(pass->open.back());
  pass->open.pop_back();
  Region& region = pass->counted->regions[open.name];
  const int64_t kept = live_bytes(pass->device) - open.live;
  ++region.calls;
  region.retained_bytes += kept;
  region.largest_retained_bytes = std::max(region.largest_retained_bytes, kept);
  region.largest_peak_bytes = std::max(region.largest_peak_bytes, open.highest - open.live);
  int64_t& outer = pass->open.empty() ? pass->highest : pass->open.back().highest;
  outer = std::max(outer, open.highest);
  reset_peak(pass->device);
}

std::unique_ptr<at::ObserverContext> name_begin(const at::RecordFunction& fn) {
  const Found found(fn);
  if (!found.none) pass->open.push_back({fn.name()});
  return std::make_unique<Nothing>();
}

void name_end(const at::RecordFunction& fn, at::ObserverContext*) {
  const Found found(fn);
  if (!found.none && !pass->open.empty()) pass->open.pop_back();
}

std::unique_ptr<at::ObserverContext> time_begin(const at::RecordFunction& fn) {
  const Found found(fn);
  if (!found.none) pass->open.push_back({fn.name(), 0, 0, mark(pass->device)});
  return std::make_unique<Nothing>();
}

void time_end(const at::RecordFunction& fn, at::ObserverContext*) {
  const Found found(fn);
  if (found.none || pass->open.empty()) return;
  Pass::Open open = std::move(pass->open.back());
  pass->open.pop_back();
  pass->timed.push_back({std::move(open.name), std::move(open.begin), mark(pass->device)});
}

std::string missing(const char* what, const std::string& name, const auto& named) {
  std::string all;
  for (const auto& [known, value] : named) all += (all.empty() ? "" : ", ") + known;
  return "the prediction asks for the " + std::string(what) + " '" + name + "' of the baseline's step, which has " +
         (all.empty() ? "none" : "only: " + all);
}

at::RecordFunctionCallback scope_callback(at::RecordFunctionCallback::StartCallback begin,
                                          at::RecordFunctionCallback::EndCallback end) {
  return at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::USER_SCOPE});
}

}  // namespace

const Region& Counted::region(const std::string& name) const {
  const auto found = regions.find(name);
  if (found == regions.end()) throw std::invalid_argument(missing("region", name, regions));
  return found->second;
}

const SettingValue& Counted::value_of(const std::string& name) const {
  const auto found = settings.find(name);
  if (found == settings.end()) throw std::invalid_argument(missing("setting", name, settings));
  return found->second;
}

double Counted::ceiling(const std::string& name) const {
  const auto measured = ceilings.find(name);
  if (timed && measured != ceilings.end()) return measured->second;
  lacked_ceiling = true;
  return std::numeric_limits<double>::quiet_NaN();
}

double Counted::share(const std::string& name) const { return region(name).seconds / whole.seconds; }

Counted count_step(torch::Device device, const std::function<Step()>& build) {
  Counted counted{.device = device};
  CountCpuMemory counting;
  // What earlier collectives used on another stream is freed when the allocator is next asked, and not before.
  synchronize(device);
  torch::empty({1}, device);
  const int64_t before = live_bytes(device);
  const Step step = build();
  for (int i = 0; i < 2; ++i) step.update();
  synchronize(device);
  counted.resting_bytes = live_bytes(device) - before;
  for (const auto& item : step.parameters) {
    counted.parameter_bytes += static_cast<int64_t>(item.value().nbytes());
    if (item.value().grad().defined()) counted.gradient_bytes += static_cast<int64_t>(item.value().grad().nbytes());
  }

  {
    Pass memory{device, &counted, {}};
    reset_peak(device);
    const Observe observe(pass, memory, {scope_callback(memory_begin, memory_end)}, &guard);
    step.update();
    note_peak();
    counted.peak_bytes = memory.highest - before;
  }
  {
    // Backward operators run under autograd's BACKWARD_FUNCTION scope and call plain operators inside: FUNCTION sees
    // both.
    Pass work{device, &counted, {}};
    const Observe observe(pass, work,
                          {at::RecordFunctionCallback(operator_begin, operator_end)
                               .needsInputs(true)
                               .needsOutputs(true)
                               .scopes({at::RecordScope::FUNCTION}),
                           scope_callback(name_begin, name_end)},
                          &guard);
    step.update();
  }
  // A GPU that has nothing to do yet would wait for the first batch; in the middle of a training it has the step
  // before.
  const auto keep_busy = [&] {
    if (device.is_cuda()) step.update();
  };
  double host_seconds = 0;  // until the last of them is queued
  const auto seconds_of_steps = [&] {
    return time_block(device,
                      [&] {
                        const auto begin = std::chrono::steady_clock::now();
                        for (int i = 0; i < kTimedSteps; ++i) step.update();
                        host_seconds = seconds_since(begin) / kTimedSteps;
                      }) /
           kTimedSteps;
  };
  keep_busy();
  counted.step_seconds = seconds_of_steps();
  Pass time{device, &counted, {}};
  keep_busy();
  {
    // Without the operator observer, which would lengthen regions with many operators.
    const Observe observe(pass, time, {scope_callback(time_begin, time_end)}, &guard);
    counted.whole.seconds = seconds_of_steps();
    counted.whole.host_seconds = host_seconds;
  }
  counted.whole.calls = 1;
  synchronize(device);  // what was marked on streams of the lesson's own, too
  for (const Pass::Timed& one : time.timed) {
    Region& region = counted.regions[one.name];
    region.seconds += seconds_between(one.begin, one.end) / kTimedSteps;
    region.host_seconds += host_seconds_between(one.begin, one.end) / kTimedSteps;
  }
  return counted;
}

}  // namespace tenfold
