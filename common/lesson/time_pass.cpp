// Interleaved timing: in every round each variant runs one short block, in an order that rotates, with the baseline
// twice. What moves the machine moves all of them, and the two baselines show by how much.
#include <tenfold/passes.h>

#include <tenfold/clock.h>
#include <tenfold/memory.h>
#include <tenfold/statistics.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace tenfold {
namespace {

using Clock = std::chrono::steady_clock;

// A built variant between its blocks: with the random state and the flags that it left.
struct Live {
  Candidate* candidate;
  std::vector<Round>* rounds;
  Step step;
  GlobalState state;
  int64_t steps = 0;  // in a block
};

// Losses are kept as tensors and read after the clock has stopped.
void check_finite(const std::vector<torch::Tensor>& losses) {
  for (const torch::Tensor& loss : losses) {
    TORCH_CHECK(std::isfinite(loss.item<double>()), "the loss became NaN or infinite while it was timed");
  }
}

}  // namespace

double timed_block(const World& world, torch::Device device, const Step& step, int64_t steps) {
  std::vector<torch::Tensor> losses;
  losses.reserve(static_cast<size_t>(steps));
  world.barrier();
  const double seconds = time_block(device, [&] {
    if (step.park) step.park(false);
    for (int64_t i = 0; i < steps; ++i) {
      const torch::Tensor loss = step.fn();
      // Detached at once: a kept loss would keep its step's graph.
      if (loss.defined()) losses.push_back(loss.detach());
    }
    // The ranks' slowest counts: without this, rank 0 could finish while others still work.
    world.barrier();
    if (step.park) step.park(true);
  });
  check_finite(losses);
  return world.max(seconds);
}

namespace {

void make_live(const CaseRun& run, Live& live) {
  live.step = {};
  run.guarded(*live.candidate, [&] {
    live.step = run.build(*live.candidate);
    timed_block(run.world, run.device, live.step, 2);  // first calls allocate, choose algorithms, fill caches
    const double seconds = timed_block(run.world, run.device, live.step, std::max(1, run.options.preset.block_steps)) /
                           std::max(1, run.options.preset.block_steps);
    const double wanted = run.options.preset.block_seconds / std::max(seconds, 1e-9);
    live.steps = std::max<int64_t>(run.options.preset.block_steps, static_cast<int64_t>(std::ceil(wanted)));
    live.steps = static_cast<int64_t>(run.world.from_rank_0(static_cast<double>(live.steps)));
    live.state = GlobalState::capture(run.device);
  });
}

// Does everything fit on the device at once? Then blocks alternate between live variants, else each is built anew.
bool fits_together(const CaseRun& run) {
  int64_t sum = 0;
  for (const Candidate& candidate : run.candidates) {
    const auto peak = candidate.result.peak_bytes.find("allocated");
    if (candidate.ok() && peak != candidate.result.peak_bytes.end()) sum += peak->second;
  }
  const auto baseline = run.candidates.front().result.peak_bytes.find("allocated");
  if (baseline != run.candidates.front().result.peak_bytes.end()) sum += baseline->second;
  return static_cast<double>(sum) < 0.8 * static_cast<double>(device_memory_bytes(run.device));
}

void drop_failed(std::vector<Live>& lives) {
  std::erase_if(lives, [](const Live& live) { return !live.candidate->ok(); });
}

}  // namespace

void time_pass(CaseRun& run) {
  Candidate& baseline = run.candidates.front();
  if (!baseline.ok()) return;
  const Preset& preset = run.options.preset;
  const int rounds = run.options.rounds.value_or(preset.rounds);
  const int most_rounds = run.options.rounds.value_or(preset.most_rounds);
  const bool together = fits_together(run);

  std::vector<Live> lives;
  lives.push_back({&baseline, &baseline.result.rounds, {}, run.clean});
  for (size_t i = 1; i < run.candidates.size(); ++i) {
    if (run.candidates[i].ok()) lives.push_back({&run.candidates[i], &run.candidates[i].result.rounds, {}, run.clean});
  }
  if (lives.size() == 1) return;  // nothing to compare with
  lives.push_back({&baseline, &baseline.result.rounds_b, {}, run.clean});

  const auto build_all = [&] {
    for (Live& live : lives) {
      make_live(run, live);
      if (!together) live.step = {};
    }
    drop_failed(lives);
  };
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  build_all();

  for (int round = 0; baseline.ok() && round < most_rounds; ++round) {
    run.stop_if_interrupted();
    run.progress.at(0.3 + 0.65 * round / std::max(rounds, round + 1),
                    "time: round " + std::to_string(round + 1) + " of " + std::to_string(rounds));
    // A layout of memory that favours one variant by luck must not last the whole pass.
    if (round == rounds / 2 && round > 0) build_all();

    std::vector<size_t> order(lives.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::rotate(order.begin(), order.begin() + round % static_cast<int>(order.size()), order.end());
    if (round % 2 == 1) std::reverse(order.begin(), order.end());

    for (size_t position = 0; position < order.size(); ++position) {
      Live& live = lives[order[position]];
      if (!live.candidate->ok()) continue;
      const bool ok = run.guarded(*live.candidate, [&] {
        if (!together) {
          live.step = run.build(*live.candidate);
          timed_block(run.world, run.device, live.step, 2);
        } else {
          live.state.restore();
        }
        const double seconds = timed_block(run.world, run.device, live.step, live.steps);
        live.state = GlobalState::capture(run.device);
        live.rounds->push_back({static_cast<int>(position), seconds, live.step.items * live.steps});
        if (!together) live.step = {};
      });
      if (!ok && live.candidate == &baseline) break;
    }
    drop_failed(lives);
    if (lives.size() <= 2) break;  // only the baselines are left

    // Stopping depends on time and on interval widths, never on a verdict.
    bool stop = round + 1 >= kFewestRounds && elapsed() > run.seconds;
    if (round + 1 >= rounds && !stop && !run.options.rounds) {
      bool narrow = true;
      for (const Live& live : lives) {
        if (live.candidate == &baseline) continue;
        const SpeedVerdict verdict = judge_speed(baseline.result.rounds, baseline.result.rounds_b, *live.rounds);
        narrow = narrow && verdict.high - verdict.low < 0.01;
      }
      stop = narrow;
    }
    if (run.world.from_rank_0(stop ? 1 : 0) > 0) break;
  }
  if (!baseline.ok()) {
    for (Candidate& candidate : run.candidates) candidate.result.rounds.clear(), candidate.result.rounds_b.clear();
  }
}

}  // namespace tenfold
