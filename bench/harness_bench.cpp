// What the harness adds to a step of about 1 ms: a block as the time pass takes it (restore random state and flags,
// time, read losses, save state) against a bare loop over the same step, in turn. Counter `cost`: median of the paired
// ratios minus 1; `cost_low` and `cost_high` enclose it with 95 %.
#include <torch/torch.h>

#include <benchmark/benchmark.h>

#include <chrono>

#include "common/base/seconds_since.h"
#include "common/harness/timed_block.h"
#include "common/measure/global_state.h"
#include "common/result/statistics.h"

namespace {

using Clock = std::chrono::steady_clock;
// A small training step, sized to the milliseconds asked for.
tenfold::Step training_step(int64_t width) {
  torch::manual_seed(1);
  auto layer = std::make_shared<torch::nn::LinearImpl>(width, width);
  auto optimizer = std::make_shared<torch::optim::SGD>(layer->parameters(), 1e-3);
  const auto inputs = torch::randn({64, width}), targets = torch::randn({64, width});
  const auto update = [=] {
    optimizer->zero_grad();
    torch::Tensor loss = torch::mse_loss(layer->forward(inputs), targets);
    loss.backward();
    optimizer->step();
    return loss;
  };
  return {.items = 64, .parameters = layer->named_parameters(), .update = update};
}

void harness_cost(benchmark::State& state) {
  at::set_num_threads(1);
  const tenfold::Step step = training_step(state.range(0));
  const tenfold::World alone;
  const int64_t steps = 10;  // the shortest block of 10 ms
  auto kept = tenfold::GlobalState::capture(torch::kCPU);
  std::vector<double> ratios;
  double step_seconds = 0;
  for (auto _ : state) {
    double bare = 0, harness = 0;
    const auto run_bare = [&] {
      const auto begin = Clock::now();
      for (int64_t i = 0; i < steps; ++i) step.update();
      bare = tenfold::seconds_since(begin);
    };
    const auto run_harness = [&] {
      const auto begin = Clock::now();
      kept.restore();
      tenfold::timed_block(alone, torch::kCPU, step, steps);
      kept = tenfold::GlobalState::capture(torch::kCPU);
      harness = tenfold::seconds_since(begin);
    };
    if (ratios.size() % 2 == 0)
      run_bare(), run_harness();
    else
      run_harness(), run_bare();
    ratios.push_back(harness / bare);
    step_seconds = bare / static_cast<double>(steps);
    state.SetIterationTime(harness);
  }
  const auto interval = tenfold::median_interval(ratios);
  state.counters["cost"] = interval.middle - 1;
  state.counters["cost_low"] = interval.low - 1;
  state.counters["cost_high"] = interval.high - 1;
  state.counters["step_ms"] = 1e3 * step_seconds;
}
BENCHMARK(harness_cost)->Arg(512)->Arg(640)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(40);

}  // namespace

BENCHMARK_MAIN();
