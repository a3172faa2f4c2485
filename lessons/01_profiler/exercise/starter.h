#pragma once
// Your answer to exercise 01. Build and check it with: ./tenfold exercise 01
#include <string>
#include <vector>

#include "lessons/01_profiler/trace_reader.h"

/// The names of the steps that spend more than half of their time loading, in the order in which they ran.
inline std::vector<std::string> input_bound_steps(const std::vector<tenfold::TraceEvent>& events) {
  std::vector<std::string> found;
  for (const tenfold::TraceEvent& step : events) {
    if (!tenfold::is_step(step)) continue;
    double loading = 0;
    // Hint: which loading makes this step wait? It depends on when the span runs, and on which thread.
    for (const tenfold::TraceEvent& event : events) {
      if (tenfold::is_data(event)) loading += event.end_us - event.begin_us;
    }
    if (loading > 0.5 * (step.end_us - step.begin_us)) found.push_back(step.name);
  }
  return found;
}
