#pragma once
// A small reader of the traces that Kineto writes, from C++ or from Python, as Perfetto opens them: which part of a
// step is spent waiting for its batch?

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tenfold::inline lesson_01 {

/// A span of a trace ("ph": "X"): an operator ("cpu_op"), a label ("user_annotation"), a kernel ("kernel").
struct TraceEvent {
  std::string name, category;
  std::string thread;  ///< process and thread, or device and stream
  double begin_us = 0, end_us = 0;
};

/// All spans of a trace, in the file's order. Throws std::runtime_error, one line, for a file that is no trace.
inline std::vector<TraceEvent> read_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be read (" + std::strerror(errno) + "); name a trace file");
  if (file.peek() == 0x1f) throw std::runtime_error(path + ": is compressed; to fix: gunzip it");
  std::vector<TraceEvent> events;
  const auto text = [](const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  try {
    const nlohmann::json trace = nlohmann::json::parse(file);
    for (const auto& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const double begin = event.at("ts");
      events.push_back({event.at("name"), event.value("cat", ""), text(event.at("pid")) + "/" + text(event.at("tid")),
                        begin, begin + event.at("dur").get<double>()});
    }
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path + ": is no trace of Kineto (" + error.what() + ")");
  }
  return events;
}

/// The label around a recorded step, of C++'s StepProfiler and of Python's profiler.
inline bool is_step(const TraceEvent& event) {
  return event.category == "user_annotation" && event.name.starts_with("ProfilerStep#");
}
/// The label around waiting for a batch: ours, and what PyTorch's DataLoader writes.
inline bool is_data(const TraceEvent& event) {
  return event.category == "user_annotation" &&
         (event.name == "data" || event.name.starts_with("enumerate(DataLoader)#"));
}

/// Microseconds within [begin_us, end_us] during which at least one of the chosen spans runs on this thread. What
/// overlaps, as a label within a label does, is counted once.
inline double covered_us(const std::vector<TraceEvent>& events, const TraceEvent& within,
                         const std::function<bool(const TraceEvent&)>& chosen) {
  std::vector<std::pair<double, double>> spans;
  for (const TraceEvent& event : events) {
    if (event.thread == within.thread && chosen(event)) spans.emplace_back(event.begin_us, event.end_us);
  }
  std::sort(spans.begin(), spans.end());
  double sum = 0, until = within.begin_us;
  for (const auto& [begin, end] : spans) {
    const double upto = std::min(end, within.end_us);
    sum += std::max(0.0, upto - std::max(begin, until));
    until = std::max(until, upto);
  }
  return sum;
}

/// A step that waits longer than this part of its time is input-bound.
inline constexpr double kInputBoundShare = 0.5;

/// What a trace says of its recorded steps.
struct TraceSummary {
  double step_us = 0, data_us = 0;       ///< means over the steps
  std::map<std::string, double> labels;  ///< microseconds of a step within each label, on the step's thread
  std::set<std::string> cpu_threads;     ///< that ran an operator
  std::vector<double> data_shares;       ///< of each step, smallest first

  /// Of the middle step: one that was interrupted does not decide.
  double data_share() const { return data_shares[data_shares.size() / 2]; }
  /// More than half of the step: then one loader decides the speed even where it overlaps with all the rest. Of a
  /// CPU's trace; on a GPU the host's time is not the step's.
  bool input_bound() const { return data_share() > kInputBoundShare; }
  /// How much faster a step is at best when one worker loads its batch meanwhile: the longer of both parts remains. W
  /// workers on cores of their own: 1 / max(share / W, 1 - share) (lesson 10).
  double best_speed_up() const { return 1 / std::max(data_share(), 1 - data_share()); }
};

/// Throws std::runtime_error for a trace without a labelled step.
inline TraceSummary summarise(const std::vector<TraceEvent>& events) {
  TraceSummary summary;
  std::set<std::string> names;
  for (const TraceEvent& event : events) {
    if (event.category == "cpu_op") summary.cpu_threads.insert(event.thread);
    if (event.category == "user_annotation" && !is_step(event)) names.insert(event.name);
  }
  for (const TraceEvent& step : events) {
    if (!is_step(step) || step.end_us <= step.begin_us) continue;
    const double data = covered_us(events, step, is_data);
    summary.step_us += step.end_us - step.begin_us;
    summary.data_us += data;
    summary.data_shares.push_back(data / (step.end_us - step.begin_us));
    for (const std::string& name : names)
      summary.labels[name] += covered_us(events, step, [&](const TraceEvent& event) { return event.name == name; });
  }
  if (summary.data_shares.empty())
    throw std::runtime_error("the trace has no step: label each as ProfilerStep#N, as StepProfiler does");
  std::sort(summary.data_shares.begin(), summary.data_shares.end());
  const auto steps = static_cast<double>(summary.data_shares.size());
  summary.step_us /= steps;
  summary.data_us /= steps;
  for (auto& [name, microseconds] : summary.labels) microseconds /= steps;
  return summary;
}

}  // namespace tenfold::inline lesson_01
