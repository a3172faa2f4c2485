// What it costs to ask c10d through the group that counts: all-reduces of BYTES over two ranks (threads, Gloo), counted
// and plain in turn. Counter `cost`: median of the paired ratios minus 1; `cost_low` and `cost_high` enclose it with
// 95 %. The benchmark `counting` is the counter alone.
#include <torch/torch.h>

#include <benchmark/benchmark.h>

#include <chrono>
#include <utility>

#include "common/base/seconds_since.h"
#include "common/ranks/counted_backend.h"
#include "common/ranks/rank_threads.h"
#include "common/result/statistics.h"

namespace {

using Clock = std::chrono::steady_clock;
void counted_all_reduce(benchmark::State& state) {
  constexpr int kRounds = 24, kCalls = 20;
  std::vector<double> ratios;
  double plain_seconds = 0;
  for (auto _ : state) {
    tenfold::on_rank_threads(2, std::chrono::seconds(60), [&](int rank, const auto& group) {
      at::set_num_threads(1);
      const auto counter = std::make_shared<tenfold::RequestCounter>();
      const auto counted = tenfold::counted_group(group, counter);
      std::vector<torch::Tensor> one{torch::zeros({state.range(0) / 4})};
      const auto run = [&](const auto& through) {
        through->allreduce(one)->wait();
        const auto begin = Clock::now();
        for (int i = 0; i < kCalls; ++i) through->allreduce(one)->wait();
        return tenfold::seconds_since(begin);
      };
      for (int round = 0; round < kRounds; ++round) {
        double plain = 0, other = 0;
        if (round % 2 == 0) {
          plain = run(group), other = run(counted);
        } else {
          other = run(counted), plain = run(group);
        }
        if (rank != 0) continue;
        ratios.push_back(other / plain);
        plain_seconds += plain / kCalls / kRounds;
      }
    });
  }
  const auto interval = tenfold::median_interval(ratios);
  state.counters["cost"] = interval.middle - 1;
  state.counters["cost_low"] = interval.low - 1;
  state.counters["cost_high"] = interval.high - 1;
  state.counters["plain_us"] = 1e6 * plain_seconds / static_cast<double>(state.iterations());
}
BENCHMARK(counted_all_reduce)
    ->Arg(4)
    ->Arg(1 << 16)
    ->Arg(1 << 20)
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void counting(benchmark::State& state) {
  tenfold::RequestCounter counter;
  for (auto _ : state) counter.add("all_reduce", 4096);
}
BENCHMARK(counting);

}  // namespace

BENCHMARK_MAIN();
