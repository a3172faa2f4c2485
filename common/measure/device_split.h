#pragma once
// Where a step's time goes on a GPU, from the activities of a trace: arithmetic on spans of time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A span of time on the clock of a trace.
struct Span {
  int64_t begin_ns = 0, end_ns = 0;
};

/// What the split looks at; everything else in a trace is left out.
enum class Activity {
  compute,        ///< a kernel, or memory being set, on the GPU
  copy,           ///< a copy that the GPU runs
  communication,  ///< a kernel of NCCL
  data            ///< the region "data", on the host
};
struct TracedSpan {
  Activity activity;
  Span span;
};

/// What an event of Kineto's trace is to the split, from its libkineto::ActivityType and its name. Nothing for what is
/// no work of its own.
std::optional<Activity> activity_of(uint8_t kineto_type, const std::string& name);

/// Splits `seconds`, which the steps take unobserved, by the spans that were traced while the same number of steps ran
/// within `window`. What overlaps is counted once: as compute, else as copy, else as communication, else as data; the
/// rest of the window is the host's. Observing lengthens what the host does, not what the GPU does: the GPU's parts are
/// taken as they were traced, and what `seconds` has left is shared out as the rest of the window was. The parts add up
/// to `seconds`. Nothing when the GPU did nothing in the trace: then it was not traced.
std::optional<Split> split_of(const std::vector<TracedSpan>& spans, const Span& window, double seconds);

}  // namespace tenfold
