// Lesson 00 - Measuring
// Why do two timings of the same code differ, and by how much can a careless one be wrong?
// Read it first. Each function is one mistake, made on purpose and compared with the same thing done properly.
#include <algorithm>
#include <memory>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/clock.h"
#include "common/measure/kernel_time.h"
#include "common/measure/memory.h"
#include "common/result/statistics.h"
#include "yardstick.h"

namespace {
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// A real training step to time: the convnet workload's.
std::function<void()> training_step(const Trial& trial) {
  return tenfold::plain_step(tenfold::convnet_workload.make(trial)).update;
}

double seconds_of(const Trial& trial, int steps, const std::function<void()>& step) {
  const auto all = [&] {
    for (int i = 0; i < steps; ++i) step();
  };
  return tenfold::time_block(trial.device, all) / steps;
}

/// Mistake: the first call counts. It allocates, chooses algorithms, faults in pages, on CUDA it loads the kernels.
/// This is the first thing the program does, so its first step is as cold as yours. It is compared with the step
/// measured properly: warmed up, in short blocks, the median of many with its interval.
void no_warm_up(const Trial& trial) {
  const auto step = training_step(trial);
  const double first = seconds_of(trial, 1, step);
  seconds_of(trial, 5, step);
  std::vector<double> blocks;
  for (int i = 0; i < 12; ++i) blocks.push_back(seconds_of(trial, 3, step));
  const auto interval = tenfold::median_interval(blocks);
  trial.note("a step, properly: median", 1e3 * interval.middle, "ms");
  trial.note("a step, properly: interval low", 1e3 * interval.low, "ms");
  trial.note("a step, properly: interval high", 1e3 * interval.high, "ms");
  trial.note("first step / later step", first / interval.middle, "x");
}

/// Mistake: A is run, then B is run, and their times are divided. Here A and B are the same code: every ratio but 1 is
/// noise. Compared with the same blocks taken in turn and paired, as the lessons do it.
void one_after_the_other(const Trial& trial) {
  const auto step = training_step(trial);
  seconds_of(trial, 5, step);
  constexpr int kPairs = 12;
  constexpr int kBlock = 3;
  std::vector<double> a, b, paired;
  for (int i = 0; i < kPairs; ++i) a.push_back(seconds_of(trial, kBlock, step));
  for (int i = 0; i < kPairs; ++i) b.push_back(seconds_of(trial, kBlock, step));
  double worst = 1;  // as if each block were somebody's only measurement
  for (int i = 0; i < kPairs; ++i) worst = std::max({worst, a[i] / b[i], b[i] / a[i]});
  for (int i = 0; i < kPairs; ++i) {
    const double first = seconds_of(trial, kBlock, step);
    const double second = seconds_of(trial, kBlock, step);
    paired.push_back(i % 2 == 0 ? first / second : second / first);
  }
  const auto interval = tenfold::median_interval(paired);
  trial.note("largest \"speed-up\" of identical code, single blocks", worst, "x");
  trial.note("paired and interleaved, interval low", interval.low, "x");
  trial.note("paired and interleaved, interval high", interval.high, "x");
}

/// Mistake: the same small buffer again and again. It stays in the cache, which a training step's data does not.
void hot_cache(const Trial& trial) {
  const auto options = torch::dtype(torch::kFloat).device(trial.device);
  // Floats: 64 KiB; of a GPU's L2 a third, so that the copy fits as well.
  const int64_t small = trial.device.is_cuda() ? tenfold::l2_bytes(trial.device) / 12 : 1 << 14;
  const int64_t large = trial.by_size(1 << 26, 1 << 28, 1 << 28);  // 256 MiB; 1 GiB
  const Tensor hot_from = torch::randn({small}, options);
  const Tensor hot_to = torch::empty_like(hot_from);
  const Tensor from = torch::randn({large}, options);
  const Tensor to = torch::empty_like(from);
  to.copy_(from);                                  // first touch
  const tenfold::LaunchTimer timer(trial.device);  // queues all launches of a GPU before the first begins
  const auto repeats = static_cast<int>(large / small);
  const double hot = timer.hot([&] { hot_to.copy_(hot_from); }, repeats) / static_cast<double>(small);
  const double cold = seconds_of(trial, 3, [&] { to.copy_(from); }) / static_cast<double>(large);
  trial.note("copy rate in cache / from memory", cold / hot, "x");
}

/// Mistake: inputs that real data never are. Zeros switch fewer transistors and let a GPU clock higher; numbers below
/// the normal range take a slow path in many CPUs.
void odd_inputs(const Trial& trial) {
  const int64_t n = trial.by_size(256, 4096, 8192);
  const auto options = torch::dtype(torch::kFloat).device(trial.device);
  const Tensor weights = torch::randn({n, n}, options);
  const auto time_product = [&](const Tensor& input) {
    Tensor out = torch::mm(input, weights);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) times.push_back(seconds_of(trial, 3, [&] { torch::mm_out(out, input, weights); }));
    return tenfold::median(times);
  };
  const double normal = time_product(torch::randn({n, n}, options));
  trial.note("matrix product, random / zeros", normal / time_product(torch::zeros({n, n}, options)), "x");
  trial.note("matrix product, denormal / random", time_product(torch::full({n, n}, 1e-40, options)) / normal, "x");
}

/// Mistake: memory is timed on its first touch. The system hands out each page only when it is written.
void first_touch(const Trial& trial) {
  if (!trial.device.is_cpu()) trial.skip("shows the CPU's page faults; run it with --device cpu");
  const Tensor fresh = torch::empty({1 << 26});  // 256 MiB, mapped anew
  const double first = seconds_of(trial, 1, [&] { fresh.fill_(1); });
  const double second = seconds_of(trial, 3, [&] { fresh.fill_(2); });
  trial.note("first write / second write", first / second, "x");
}

/// Mistake: the host's clock around asynchronous work. It measures how fast work is handed over, not done.
void not_synchronised(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("needs a CUDA device: CPU operators have finished when they return");
  const Tensor a = torch::randn({4096, 4096}, trial.device);
  const Tensor b = torch::randn({4096, 4096}, trial.device);
  torch::mm(a, b);
  const auto product = [&] { torch::mm(a, b); };
  const double handed_over = tenfold::time_block(torch::kCPU, product);
  tenfold::synchronize(trial.device);
  trial.note("real time / time until the call returned", seconds_of(trial, 10, product) / handed_over, "x");
}

/// Done properly: the same code twice, compared as lessons compare. The interval says how little can be found
/// here; and as every machine does the same work, these rows compare machines.
Step same_code(const Trial& trial) { return tenfold::plain_step(trial.workload.make(trial)); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const std::vector<Expectation> nothing_to_find = {{"the same code", {SAME_SPEED, SAME_MEMORY}}};
  return run(argc, argv,
             {.title = "Measuring",
              .question = "Why do two timings of the same code differ, and by how much can a careless one be wrong?",
              .workload = convnet_workload,
              .version = 5,
              .core = true,
              .baseline = {"a training step", same_code},
              .techniques = {{"the same code", same_code}},
              .cases = {{.name = "convnet", .expected = nothing_to_find},
                        {.name = "gpt", .expected = nothing_to_find, .workload = gpt_workload},
                        {.name = "mlp", .expected = nothing_to_find, .workload = mlp_workload}},
              .surveys = {{"this machine",
                           {{"no warm-up", no_warm_up},
                            {"one after the other", one_after_the_other},
                            {"hot cache", hot_cache},
                            {"odd inputs", odd_inputs},
                            {"first touch", first_touch},
                            {"not synchronised", not_synchronised}}}},
              .headline = Headline{"gpt", "the same code"}});
}
