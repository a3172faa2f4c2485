#include "ladder_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "common/base/seconds_since.h"
#include "common/base/text.h"
#include "common/measure/kernel_time.h"
#include "common/result/statistics.h"

#ifdef TENFOLD_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace tenfold::bench {
namespace {

constexpr double kSlow = 20;            // times as long as the fastest
constexpr double kRoundSeconds = 0.02;  // of a contestant, on cold caches and on hot ones
constexpr int kMostLaunches = 20;
constexpr double kInterruption = 0.2;  // seconds that another program may keep us waiting

double cold(const LaunchTimer& timer, const Contestant& contestant) {
  if (contestant.prepare) contestant.prepare();
  return timer.cold([&] { contestant.work(); });
}

double hot(const LaunchTimer& timer, const Contestant& contestant, int count) {
  if (contestant.prepare) contestant.prepare();
  return timer.hot([&] { contestant.work(); }, count);
}

/// A contestant that is right, and how often it is launched in a round.
struct Turn {
  Row* row;
  const Contestant* contestant;
  double once = 0;  ///< seconds of a launch
  double wall = 0;  ///< seconds of a cold sample with all that belongs to it
  int cold = 1, hot = 3;

  double cost() const { return cold * wall + hot * once; }
};

void estimate(Turn& turn, const LaunchTimer& timer) {
  turn.once = turn.wall = std::numeric_limits<double>::infinity();
  // The first sample may still load a kernel, or be interrupted; a slow contestant is not worth a third one.
  for (int sample = 0; sample < 3; ++sample) {
    if (sample > 0 && turn.wall > (sample == 1 ? kInterruption : kRoundSeconds)) break;
    const Clock::time_point begin = Clock::now();
    turn.once = std::min(turn.once, cold(timer, *turn.contestant));
    turn.wall = std::min(turn.wall, seconds_since(begin));
  }
}

/// As many launches as fit into a round, and all rounds into the `seconds` that there are.
void plan(std::vector<Turn>& turns, double seconds) {
  double all = 0;
  for (Turn& turn : turns) {
    turn.cold = static_cast<int>(std::clamp(kRoundSeconds / turn.wall, 1.0, double{kMostLaunches}));
    turn.hot = static_cast<int>(std::clamp(kRoundSeconds / turn.once, 3.0, double{kMostLaunches}));
    all += kRounds * turn.cost();
  }
  if (all <= seconds) return;
  const double part = std::max(0.0, seconds) / all;
  for (Turn& turn : turns) {
    turn.cold = std::max(1, static_cast<int>(part * turn.cold));
    turn.hot = std::max(3, static_cast<int>(part * turn.hot));
  }
}

/// Takes out those that would cost the others their time: their best sample is all there will be.
void set_slow_apart(std::vector<Turn>& turns) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Turn& turn : turns) fastest = std::min(fastest, turn.once);
  const auto slow = [&](const Turn& turn) { return turn.once > kSlow * fastest && turn.wall > kRoundSeconds / 2; };
  for (const Turn& turn : turns) {
    if (slow(turn)) turn.row->cold = {turn.once};
  }
  std::erase_if(turns, slow);
}

Contestant plain_copy(const Place& place, double bytes) {
  const Tensor from = place.normal({std::max<int64_t>(1, std::llround(bytes / 8))}), to = torch::empty_like(from);
  return {kCopy, [=] {
            to.copy_(from);
            return std::vector{to};
          }};
}

std::string bus_id_of([[maybe_unused]] torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  std::array<char, 32> id{};
  if (device.is_cuda() && cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device.index()) == cudaSuccess)
    return id.data();
#endif
  return "";
}

/// What is wrong with the results; empty when they are right.
std::string complaint(const Ladder& ladder, const Contestant& contestant) {
  const auto results_of = [&] {
    if (contestant.prepare) contestant.prepare();
    return contestant.work();
  };
  // What nobody writes must not look right because it was right before: poison, and work again.
  for (Tensor& result : results_of()) result.detach().fill_(std::numeric_limits<double>::quiet_NaN());
  const std::vector<Tensor> results = results_of();
  if (results.size() != ladder.expected.size()) return "it returns " + std::to_string(results.size()) + " tensors";
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].sizes() != ladder.expected[i].sizes()) return "a result has shape " + c10::str(results[i].sizes());
    const Tensor expected = ladder.expected[i].to(torch::kDouble), size = expected.abs();
    const Tensor error = (results[i].detach().to(torch::kDouble) - expected).abs() / (size + size.mean());
    const double worst = error.max().item<double>();  // NaN when there is one
    if (!(worst <= ladder.tolerance))
      return c10::str("the result is wrong: error ", worst, ", allowed ", ladder.tolerance);
  }
  return "";
}

}  // namespace

Problem problem_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const c10::OutOfMemoryError& error) {
    return {"does not fit: " + first_line(error.what_without_backtrace()), /*failed=*/false};
  } catch (const c10::Error& error) {
    return {first_line(error.what_without_backtrace())};
  } catch (const std::exception& error) {
    return {first_line(error.what())};
  }
}

Problem check(const Ladder& ladder, const Contestant& contestant) {
  std::string text;
  const Problem thrown = problem_of([&] { text = complaint(ladder, contestant); });
  return thrown.text.empty() ? Problem{text} : thrown;
}

Measured measure(const Ladder& ladder, const Place& place, Clock::time_point end) {
  Measured measured{.ladder = ladder.name, .bytes = ladder.bytes, .flops = ladder.flops};
  for (const Contestant& contestant : ladder.contestants)
    measured.rows.push_back({.name = contestant.name, .problem = check(ladder, contestant)});
  for (const auto& [name, reason] : ladder.skipped)
    measured.rows.push_back({.name = name, .problem = {reason, /*failed=*/false}});

  Contestant copy;
  if (ladder.bytes > 0) {
    copy = plain_copy(place, ladder.bytes);
    measured.rows.push_back({.name = copy.name});
  }
  std::vector<Turn> turns;
  for (size_t i = 0; i < measured.rows.size(); ++i) {
    Row& row = measured.rows[i];
    if (row.problem.text.empty())
      turns.push_back({.row = &row, .contestant = i < ladder.contestants.size() ? &ladder.contestants[i] : &copy});
  }
  const LaunchTimer timer(place.device);
  for (Turn& turn : turns) estimate(turn, timer);
  set_slow_apart(turns);
  plan(turns, std::chrono::duration<double>(end - Clock::now()).count());

  double cost = 0;
  for (const Turn& turn : turns) cost += turn.cost();
  const GpuMonitor monitor(bus_id_of(place.device));
  std::mt19937_64 random(1);
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && Clock::now() + std::chrono::duration<double>(cost) > end) break;
    // In turn and in another order each time: minutes of a slower clock hit all of them.
    std::shuffle(turns.begin(), turns.end(), random);
    for (const Turn& turn : turns) {
      std::vector<double> seconds;
      for (int i = 0; i < turn.cold; ++i) seconds.push_back(cold(timer, *turn.contestant));
      turn.row->cold.push_back(median(std::move(seconds)));
      turn.row->hot.push_back(hot(timer, *turn.contestant, turn.hot));
    }
    if (const auto state = monitor.read()) measured.states.push_back(*state);
  }
  return measured;
}

}  // namespace tenfold::bench
