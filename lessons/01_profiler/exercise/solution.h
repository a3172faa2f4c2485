#pragma once
// A solution of exercise 01.
#include <algorithm>
#include <string>
#include <vector>

#include "lessons/01_profiler/trace_reader.h"

/// The names of the steps that spend more than half of their time loading, in the order in which they ran.
inline std::vector<std::string> input_bound_steps(const std::vector<tenfold::TraceEvent>& events) {
  std::vector<tenfold::TraceEvent> steps, loading;
  for (const tenfold::TraceEvent& event : events) {
    if (tenfold::is_step(event)) steps.push_back(event);
    if (tenfold::is_data(event)) loading.push_back(event);
  }
  const auto earlier = [](const tenfold::TraceEvent& a, const tenfold::TraceEvent& b) {
    return a.begin_us < b.begin_us;
  };
  std::sort(steps.begin(), steps.end(), earlier);
  std::sort(loading.begin(), loading.end(), earlier);
  std::vector<std::string> found;
  for (const tenfold::TraceEvent& step : steps) {
    double waited = 0, counted_until = step.begin_us;
    for (const tenfold::TraceEvent& event : loading) {
      if (event.thread != step.thread) continue;
      const double end = std::min(event.end_us, step.end_us);
      waited += std::max(0.0, end - std::max(event.begin_us, counted_until));
      counted_until = std::max(counted_until, end);
    }
    if (waited > 0.5 * (step.end_us - step.begin_us)) found.push_back(step.name);
  }
  return found;
}
