#include "ladder_report.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/result/statistics.h"

#include "run_benchmarks.h"

namespace tenfold::bench {
namespace {

using benchmark::BenchmarkReporter;

std::string word_of(const Problem& problem) { return problem.failed ? "FAILED: " : "skipped: "; }

const Row* row_named(const Measured& measured, const std::string& name) {
  const auto found =
      std::find_if(measured.rows.begin(), measured.rows.end(), [&](const Row& row) { return row.name == name; });
  return found == measured.rows.end() ? nullptr : &*found;
}

/// Speed on cold caches over that of another row, round by round.
std::string speed_of(const Row& row, const Row* other) {
  if (other == nullptr || other->cold.empty()) return "-";
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(row.cold.size(), other->cold.size()); ++i)
    ratios.push_back(other->cold[i] / row.cold[i]);
  const Interval interval = median_interval(ratios);
  return human_ratio(interval.middle) + " [" + human_ratio(interval.low) + ", " + human_ratio(interval.high) + "]";
}

std::string clocks_text(const std::vector<GpuState>& states) {
  const auto range = [&](auto member) {
    const auto [low, high] = std::minmax_element(
        states.begin(), states.end(), [&](const GpuState& a, const GpuState& b) { return a.*member < b.*member; });
    return human_number((*low).*member) + " to " + human_number((*high).*member);
  };
  std::map<std::string, int> slowed;
  for (const GpuState& state : states) {
    if (const std::string text = slowdown_text(state.slowed_by); !text.empty()) ++slowed[text];
  }
  std::string out = "SM clock " + range(&GpuState::sm_mhz) + " MHz, " + range(&GpuState::temperature_c) + " C, " +
                    range(&GpuState::power_w) + " W";
  for (const auto& [text, rounds] : slowed)
    out += "; slowed by " + text + " in " + std::to_string(rounds) + " of " + std::to_string(states.size()) + " rounds";
  return out + "\n";
}

/// One round of a row, as Google Benchmark reports a repetition.
BenchmarkReporter::Run run_of(const Measured& measured, const std::string& name, const std::vector<double>& rounds,
                              size_t round) {
  BenchmarkReporter::Run run;
  run.run_name.function_name = measured.ladder + "/" + name;
  run.family_index = run.per_family_instance_index = 0;
  run.run_type = BenchmarkReporter::Run::RT_Iteration;
  run.iterations = 1;
  run.repetitions = static_cast<int64_t>(rounds.size());
  run.repetition_index = static_cast<int64_t>(round);
  run.time_unit = benchmark::kMicrosecond;
  run.real_accumulated_time = rounds[round];
  if (measured.bytes > 0) run.counters["bytes/s"] = measured.bytes / rounds[round];
  if (measured.flops > 0) run.counters["FLOP/s"] = measured.flops / rounds[round];
  if (round < measured.states.size()) {
    const GpuState& state = measured.states[round];
    run.counters["sm_mhz"] = state.sm_mhz;
    run.counters["temperature_c"] = state.temperature_c;
    run.counters["power_w"] = state.power_w;
    run.counters["slowed_by"] = static_cast<double>(state.slowed_by);
  }
  return run;
}

}  // namespace

std::string table(const Measured& measured) {
  const std::string& first = measured.rows.front().name;
  std::vector<std::vector<std::string>> rows = {
      {measured.ladder, "hot", "cold", "bytes", "arithmetic", "of copy", "of " + first, "rounds"}};
  std::string remarks;
  for (const Row& row : measured.rows) {
    if (!row.problem.text.empty()) {
      remarks += row.name + ": " + word_of(row.problem) + row.problem.text + "\n";
      continue;
    }
    const double seconds = median(row.cold);
    rows.push_back({row.name, row.hot.empty() ? "-" : human_seconds(median(row.hot)), human_seconds(seconds),
                    measured.bytes > 0 ? human_number(measured.bytes / seconds) + "B/s" : "-",
                    measured.flops > 0 ? human_number(measured.flops / seconds) + "FLOP/s" : "-",
                    speed_of(row, row_named(measured, kCopy)), speed_of(row, row_named(measured, first)),
                    std::to_string(row.cold.size())});
  }
  return format_columns(rows, "lrrrrrrr") + remarks + (measured.states.empty() ? "" : clocks_text(measured.states));
}

Report::Report(std::string file, const char* program) : file_(std::move(file)) {
  BenchmarkReporter::Context::executable_name = program;
  add_provenance();
  benchmark::AddCustomContext("libtorch", TORCH_VERSION);
  for (const Gpu& gpu : fingerprint().gpus) benchmark::AddCustomContext("gpu", gpu.name);
}

void Report::add(const Measured& measured) {
  for (const Row& row : measured.rows) {
    if (!row.problem.text.empty())
      benchmark::AddCustomContext(measured.ladder + "/" + row.name, word_of(row.problem) + row.problem.text);
  }
  all_.push_back(measured);
  write();
}

void Report::skip(const std::string& ladder, const Problem& problem) {
  benchmark::AddCustomContext(ladder, word_of(problem) + problem.text);
  write();
}

void Report::write() const {
  if (file_.empty()) return;
  std::ostringstream text;
  benchmark::JSONReporter json;
  json.SetOutputStream(&text);
  json.SetErrorStream(&text);
  json.ReportContext(BenchmarkReporter::Context());
  for (const Measured& measured : all_) {
    std::vector<BenchmarkReporter::Run> runs;
    for (const Row& row : measured.rows) {
      for (size_t i = 0; i < row.cold.size(); ++i) runs.push_back(run_of(measured, row.name + "/cold", row.cold, i));
      for (size_t i = 0; i < row.hot.size(); ++i) runs.push_back(run_of(measured, row.name + "/hot", row.hot, i));
    }
    json.ReportRuns(runs);
  }
  json.Finalize();
  write_atomically(file_, text.str());
}

}  // namespace tenfold::bench
