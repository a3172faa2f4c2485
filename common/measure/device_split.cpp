#include "common/measure/device_split.h"

#include <kineto/ActivityType.h>

#include <algorithm>
#include <map>

namespace tenfold {
namespace {

/// Seconds of the window that lie in at least one of the spans.
double covered_seconds(std::vector<Span> spans, const Span& window) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  int64_t sum = 0, until = window.begin_ns;
  for (const Span& span : spans) {
    const int64_t end = std::min(span.end_ns, window.end_ns);
    sum += std::max<int64_t>(0, end - std::max(span.begin_ns, until));
    until = std::max(until, end);
  }
  return static_cast<double>(sum) / 1e9;
}

}  // namespace

// The types of a GPU's trace, as Kineto's header lists them, and what each is in PyTorch 2.11:
//   CPU_OP               an operator on the host
//   USER_ANNOTATION      a RECORD_USER_SCOPE on the host, such as "data"
//   GPU_USER_ANNOTATION  its shadow on the GPU, from the first to the last activity that it launched, gaps included
//   GPU_MEMCPY           a copy, "Memcpy HtoD (Pinned -> Device)"
//   GPU_MEMSET           "Memset (Device)"
//   CONCURRENT_KERNEL    a kernel; NCCL's are called ncclDevKernel_..., older ones ncclKernel_...
//   CUDA_RUNTIME, CUDA_DRIVER   calls on the host: cudaLaunchKernel, cudaStreamSynchronize
//   OVERHEAD             CUPTI's own
//   CUDA_SYNC, CUDA_EVENT       waits and marks on a stream, when they are asked for
std::optional<Activity> activity_of(uint8_t kineto_type, const std::string& name) {
  switch (static_cast<libkineto::ActivityType>(kineto_type)) {
    case libkineto::ActivityType::CONCURRENT_KERNEL:
      return name.starts_with("nccl") ? Activity::communication : Activity::compute;
    case libkineto::ActivityType::GPU_MEMSET:
      return Activity::compute;
    case libkineto::ActivityType::GPU_MEMCPY:
      return Activity::copy;
    case libkineto::ActivityType::USER_ANNOTATION:
      return name == "data" ? std::optional(Activity::data) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Split> split_of(const std::vector<TracedSpan>& spans, const Span& window, double seconds) {
  std::vector<Span> counted;
  double so_far = 0;
  // What this activity adds to those before it.
  const auto add = [&](Activity activity) {
    for (const TracedSpan& one : spans) {
      if (one.activity == activity) counted.push_back(one.span);
    }
    const double before = so_far;
    so_far = covered_seconds(counted, window);
    return so_far - before;
  };
  Split split;
  split.device = add(Activity::compute);
  split.copy = add(Activity::copy);
  split.communication = add(Activity::communication);
  const double busy = so_far;
  if (busy <= 0) return std::nullopt;
  split.data = add(Activity::data);
  split.host = static_cast<double>(window.end_ns - window.begin_ns) / 1e9 - so_far;
  const double idle = split.data + split.host;
  const double of_busy = std::min(1.0, seconds / busy);
  const double of_idle = idle > 0 ? std::max(0.0, seconds - busy) / idle : 0;
  for (double* part : {&split.device, &split.copy, &split.communication}) *part *= of_busy;
  for (double* part : {&split.data, &split.host}) *part *= of_idle;
  return split;
}

}  // namespace tenfold
