#include "ladder.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <list>
#include <map>

#include <tenfold/clock.h>
#include <tenfold/humanize.h>
#include <tenfold/statistics.h>

#include "run_benchmarks.h"

namespace tenfold::bench {
namespace {

constexpr int kRepetitions = 12;  // order statistics then enclose the median with 96 %
constexpr int kLaunches = 20;     // of a repetition
constexpr const char* kCopy = "copy";

/// A ladder, and the seconds of each repetition by contestant.
struct Measured {
  Ladder ladder;
  Contestant copy;  // moves the ladder's bytes, half of them read and half written
  std::map<std::string, std::vector<double>> cold = {}, hot = {};
};

std::vector<Tensor> results_of(const Contestant& contestant) {
  if (contestant.prepare) contestant.prepare();
  return contestant.work();
}

/// What is wrong with the contestant's results; empty when they are right.
std::string complaint(const Ladder& ladder, const Contestant& contestant) {
  // What nobody writes must not look right because it was right before: poison, and work again.
  for (Tensor& result : results_of(contestant)) result.detach().fill_(std::numeric_limits<double>::quiet_NaN());
  const std::vector<Tensor> results = results_of(contestant);
  if (results.size() != ladder.expected.size()) return "it returns " + std::to_string(results.size()) + " tensors";
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].sizes() != ladder.expected[i].sizes()) return "a result has shape " + c10::str(results[i].sizes());
    const Tensor expected = ladder.expected[i].to(torch::kDouble), size = expected.abs();
    const Tensor error = (results[i].detach().to(torch::kDouble) - expected).abs() / (size + size.mean());
    const double worst = error.max().item<double>();  // NaN when there is one
    if (!(worst <= ladder.tolerance)) return c10::str("the result is wrong: error ", worst, ", allowed ", ladder.tolerance);
  }
  return "";
}

void measure(benchmark::State& state, const Place& place, Measured& measured, const Contestant& contestant, bool cold, bool& wrong) {
  const Ladder& ladder = measured.ladder;
  const auto check = [&](const std::string& when) {
    const std::string text = contestant.name == kCopy ? "" : complaint(ladder, contestant);
    if (text.empty()) return true;
    wrong = true;
    state.SkipWithError((when + text).c_str());
    return false;
  };
  if (!check("before timing: ")) return;
  // More than any L2. On a CPU only this file's test takes times.
  const Tensor flush = torch::empty({int64_t{1} << (place.device.is_cuda() ? 28 : 20)}, torch::dtype(torch::kByte).device(place.device));
  std::vector<double> seconds;
  for ([[maybe_unused]] auto step : state) {
    if (cold) flush.zero_();
    const int launches = cold ? 1 : kLaunches;  // hot ones follow each other at once
    seconds.push_back(time_block(place.device,
                                 [&] {
                                   for (int i = 0; i < launches; ++i) contestant.work();
                                 }) /
                      launches);
    state.SetIterationTime(seconds.back());
  }
  const double middle = median(seconds);
  (cold ? measured.cold : measured.hot)[contestant.name].push_back(middle);
  if (ladder.bytes > 0) state.counters["bytes/s"] = ladder.bytes / middle;
  if (ladder.flops > 0) state.counters["FLOP/s"] = ladder.flops / middle;
  check("after timing: ");
}

std::string table(const Measured& measured) {
  const Ladder& ladder = measured.ladder;
  const std::string& first = ladder.contestants.front().name;
  std::vector<std::vector<std::string>> rows = {{ladder.name, "hot", "cold", "bytes", "arithmetic", "of copy", "of " + first}};
  const auto speed_of = [&](const std::vector<double>& seconds, const std::string& other) -> std::string {
    const auto base = measured.cold.find(other);
    if (base == measured.cold.end()) return "-";
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(seconds.size(), base->second.size()); ++i) ratios.push_back(base->second[i] / seconds[i]);
    const Interval interval = median_interval(ratios);
    return human_ratio(interval.middle) + " [" + human_ratio(interval.low) + ", " + human_ratio(interval.high) + "]";
  };
  for (const auto& [name, cold] : measured.cold) {
    const double seconds = median(cold);
    const auto hot = measured.hot.find(name);
    rows.push_back({name, hot == measured.hot.end() ? "-" : human_seconds(median(hot->second)), human_seconds(seconds),
                    ladder.bytes > 0 ? human_number(ladder.bytes / seconds) + "B/s" : "-",
                    ladder.flops > 0 ? human_number(ladder.flops / seconds) + "FLOP/s" : "-", speed_of(cold, kCopy),
                    speed_of(cold, first)});
  }
  return format_columns(rows, "lrrrrrr");
}

Contestant plain_copy(const Place& place, double bytes) {
  const Tensor from = place.normal({std::max<int64_t>(1, std::llround(bytes / 8))}), to = torch::empty_like(from);
  return {kCopy, [=] {
            to.copy_(from);
            return std::vector{to};
          }};
}

}  // namespace

void add_rungs(Ladder& ladder, int count, const std::function<std::vector<Tensor>(int rung)>& work) {
  for (int rung = 0; rung < count; ++rung) ladder.contestants.push_back({"rung " + std::to_string(rung), [=] { return work(rung); }});
}

Tensor leaf(const Tensor& tensor, torch::ScalarType type) { return tensor.detach().to(type).requires_grad_(); }

std::vector<Tensor> gradients(const Tensor& out, const std::vector<Tensor>& inputs, const Tensor& grad) {
  return torch::autograd::grad({out}, inputs, {grad}, /*retain_graph=*/true);
}

std::string ladder_name(const std::string& operation, torch::ScalarType type, torch::IntArrayRef sizes) {
  std::string out = operation + ", " + torch::toString(type) + ",";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i == 0 ? " " : " x ") + std::to_string(sizes[i]);
  return out;
}

namespace {

/// Every contestant's result at a small shape, without a time.
bool check_all(const std::list<Ladder>& ladders) {
  bool right = true;
  for (const Ladder& ladder : ladders) {
    std::cout << ladder.name << "\n";
    for (const Contestant& contestant : ladder.contestants) {
      const std::string text = complaint(ladder, contestant);
      std::cout << "  " << contestant.name << ": " << (text.empty() ? "right" : text) << std::endl;
      right = right && text.empty();
    }
  }
  std::cout << "No GPU here: nothing was timed. What the memory system would do: ./tenfold kernel NAME\n";
  return right;
}

bool time_all(const Place& place, std::list<Ladder> ladders) {
  bool wrong = false;
  std::list<Measured> all;  // the benchmarks point into it
  for (Ladder& ladder : ladders) {
    Contestant copy = plain_copy(place, ladder.bytes);
    Measured& measured = all.emplace_back(Measured{std::move(ladder), std::move(copy)});
    const auto add = [&](const Contestant& contestant, bool cold) {
      const std::string name = measured.ladder.name + "/" + contestant.name + (cold ? "/cold" : "/hot");
      benchmark::RegisterBenchmark(name.c_str(),
                                   [&, cold](benchmark::State& state) { measure(state, place, measured, contestant, cold, wrong); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(kLaunches)
          ->Repetitions(kRepetitions)
          ->ReportAggregatesOnly(true);
    };
    for (const bool cold : {true, false}) {
      for (const Contestant& contestant : measured.ladder.contestants) add(contestant, cold);
      if (measured.ladder.bytes > 0) add(measured.copy, cold);
    }
  }
  add_provenance();
  benchmark::AddCustomContext("libtorch", TORCH_VERSION);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();
  for (const Measured& measured : all) {
    if (!measured.cold.empty()) std::cout << "\n" << table(measured);
  }
  return !wrong;
}

}  // namespace

int run_at(const Place& place, int argc, char** argv, std::initializer_list<std::function<Ladder(const Place&)>> build) {
  // Contestants' repetitions lie among each other: minutes of a slower clock hit all of them.
  std::vector<char*> arguments(argv, argv + argc);
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  arguments.insert(arguments.begin() + 1, interleave.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  at::globalContext().setAllowTF32CuBLAS(false);
  torch::manual_seed(1);
  std::list<Ladder> ladders;
  for (const auto& make : build) ladders.push_back(make(place));
  return (place.timed ? time_all(place, std::move(ladders)) : check_all(ladders)) ? 0 : 1;
}

int run(int argc, char** argv, std::initializer_list<std::function<Ladder(const Place&)>> build) {
  const bool gpu = torch::cuda::is_available();
  return run_at({gpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU), gpu}, argc, argv, build);
}

}  // namespace tenfold::bench
