#include <tenfold/time_pass.h>

#include <tenfold/judge.h>
#include <tenfold/memory.h>
#include <tenfold/statistics.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

namespace tenfold {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kMostOverhead = 0.01;  // of a block: switching, waking threads and barriers stay below it
constexpr double kLongestBlock = 1;     // seconds that a block may grow to for their sake
constexpr double kDeviceBlock = 0.05;   // seconds
constexpr int64_t kDeviceSteps = 3;
constexpr int kSwitches = 8;                  // for which a step right after a switch is compared with the next one
constexpr double kMostForSwitches = 0.1;      // of the time
constexpr double kReadingClocks = 5e-6;       // seconds
constexpr double kMostForBuilding = 1.0 / 3;  // of the time
constexpr int kBuildsWhenSlow = 2;
constexpr double kNarrow = 0.01;  // relative width of an interval that needs no more rounds

double since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }
int64_t nanoseconds(double seconds) { return static_cast<int64_t>(std::llround(1e9 * seconds)); }

void check_finite(const std::vector<torch::Tensor>& losses) {
  for (const torch::Tensor& loss : losses) {
    if (!std::isfinite(loss.item<double>())) throw NotFinite("the loss became NaN or infinite while it was timed");
  }
}

// Does everything fit on the device at once? Only one variant steps at a time, so what all keep between their steps and
// the largest step's own need count. If not, each variant is built anew for each of its blocks.
bool fit_together(const CaseRun& run) {
  int64_t resting = 0, stepping = 0;
  for (const Candidate& candidate : run.candidates) {
    const auto peak = candidate.result.peak_bytes.find("allocated");
    if (!candidate.ok() || peak == candidate.result.peak_bytes.end()) continue;
    const bool baseline = &candidate == &run.candidates.front();
    resting += (baseline ? 2 : 1) * candidate.resting_bytes;
    stepping = std::max(stepping, peak->second - candidate.resting_bytes);
  }
  return static_cast<double>(resting + stepping) < 0.8 * static_cast<double>(device_memory_bytes(run.device));
}

}  // namespace

Times timed_block(const World& world, torch::Device device, const Step& step, int64_t steps) {
  std::vector<torch::Tensor> losses;
  losses.reserve(static_cast<size_t>(steps));
  world.barrier();
  Times times = take_times(device, [&] {
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
  times.wall = world.max(times.wall);
  times.device = world.max(times.device);
  return times;
}

std::vector<int64_t> block_steps(const std::vector<StepCost>& costs, double block_seconds, bool on_device) {
  std::vector<int64_t> steps(costs.size(), 1);
  if (block_seconds <= 0) return steps;
  bool equally_long = on_device;
  double longest = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    const StepCost& cost = costs[i];
    equally_long = equally_long || cost.threads;
    const double seconds = std::max(on_device ? kDeviceBlock : block_seconds, std::min(kLongestBlock, cost.overhead / kMostOverhead));
    const int64_t fewest = std::max<int64_t>(on_device ? kDeviceSteps : 1, cost.threads ? cost.batches_ahead + 1 : 1);
    steps[i] = std::max(fewest, static_cast<int64_t>(std::ceil(seconds / cost.seconds)));
    longest = std::max(longest, static_cast<double>(steps[i]) * cost.seconds);
  }
  for (size_t i = 0; i < costs.size() && equally_long; ++i) {
    steps[i] = std::max(steps[i], static_cast<int64_t>(std::llround(longest / costs[i].seconds)));
  }
  return steps;
}

TimePass::TimePass(CaseRun& run) : run_(run) {
  for (Candidate& candidate : run.candidates) {
    if (candidate.ok()) lives_.push_back({&candidate, run.clean});
  }
  lives_.push_back({&run.candidates.front(), run.clean});
  together_ = fit_together(run);
  drop_failed();
}

bool TimePass::guard(Live& live, const std::function<void(Live&)>& work) {
  return live.candidate->ok() && run_.guarded(*live.candidate, [&] {
    if (!live.step.fn) {
      live.step = run_.build(*live.candidate);
      timed_block(run_.world, run_.device, live.step, 2);  // first calls allocate, choose algorithms, fill caches
    } else {
      live.state.restore();
    }
    work(live);
    live.state = GlobalState::capture(run_.device);
    if (!together_) live.step = {};
  });
}

void TimePass::for_each_live(const std::function<void(Live&)>& work) {
  for (Live& live : lives_) guard(live, work);
  drop_failed();
}

// A technique that failed leaves the others alone; without the baseline there is nothing to compare with.
void TimePass::drop_failed() {
  std::erase_if(lives_, [](const Live& live) { return !live.candidate->ok(); });
  const bool comparable = lives_.size() > 2 && lives_.front().candidate == &run_.candidates.front();
  if (!comparable) lives_.clear();
}

void TimePass::build_all() {
  for (Live& live : lives_) live.step = {};
  const auto begin = Steady::now();
  if (together_) for_each_live([](Live&) {});
  build_seconds_ = run_.world.from_rank_0(since(begin));
  ++builds_;
}

void TimePass::measure_costs() {
  for_each_live([&](Live& live) {
    live.cost.seconds = timed_block(run_.world, run_.device, live.step, 2).seconds() / 2;
    live.cost.threads = live.step.park != nullptr;
    live.cost.batches_ahead = live.step.batches_ahead;
    live.blocks.items = live.step.items;
    if (!live.cost.threads && !run_.world.group) return;
    std::vector<double> empty;
    for (int i = 0; i < 5; ++i) empty.push_back(timed_block(run_.world, run_.device, live.step, 0).wall);
    live.cost.overhead = median(empty);
  });
  for (Live& live : lives_) {
    live.cost.seconds = run_.world.from_rank_0(live.cost.seconds);
    live.cost.overhead = run_.world.from_rank_0(live.cost.overhead);
  }
}

// Where a step has its thread to itself and waits for nothing, processor time is the better clock: it leaves out what
// other programs took. And a step right after another variant's finds caches that are not its own.
void TimePass::look_at_switches(double seconds) {
  double steps = 0;
  bool alone = run_.device.is_cpu() && !run_.world.group && run_.options.threads == 1 && together_;
  for (const Live& live : lives_) {
    steps += live.cost.seconds;
    alone = alone && !live.cost.threads;
  }
  run_.clock = run_.device.is_cuda() ? Clock::device : Clock::wall;
  if (!alone || run_.options.preset.block_seconds == 0) return;
  const int switches = std::clamp(static_cast<int>(kMostForSwitches * seconds / (2 * steps)), 2, kSwitches);
  const int64_t waited = waits_of_this_thread();
  double process = 0, thread = 0;
  std::vector<std::vector<double>> penalties(lives_.size());
  for (int i = 0; i < switches; ++i) {
    for (size_t j = 0; j < lives_.size(); ++j) {
      guard(lives_[j], [&](Live& live) {
        const Times first = timed_block(run_.world, run_.device, live.step, 1), second = timed_block(run_.world, run_.device, live.step, 1);
        penalties[j].push_back(first.processor / second.processor - 1);
        process += first.processor + second.processor;
        thread += first.thread + second.thread;
      });
    }
  }
  // Reading the clocks takes microseconds that are in the process's time alone.
  const double reading = 2 * kReadingClocks * switches * static_cast<double>(lives_.size());
  if (waits_of_this_thread() == waited && process < 1.01 * thread + reading) run_.clock = Clock::processor;
  for (size_t j = 0; j < lives_.size(); ++j) {
    // Too few to tell: a step this long outlasts the caches it found.
    if (penalties[j].size() < static_cast<size_t>(kFewestRounds)) continue;
    const Interval penalty = median_interval(penalties[j]);
    if (penalty.low > 0) lives_[j].cost.overhead = std::max(0.0, penalty.middle) * lives_[j].cost.seconds;
  }
  drop_failed();
}

void TimePass::choose_blocks() {
  std::vector<StepCost> costs;
  for (const Live& live : lives_) costs.push_back(live.cost);
  std::vector<int64_t> steps = block_steps(costs, run_.options.preset.block_seconds, run_.device.is_cuda());
  // The two baselines are the same code and run the same blocks.
  if (!steps.empty()) steps.front() = steps.back() = std::max(steps.front(), steps.back());
  round_seconds_ = 0;
  for (size_t i = 0; i < lives_.size(); ++i) {
    lives_[i].blocks.steps = steps[i];
    lives_[i].blocks.items *= steps[i];  // so far of one step
    round_seconds_ += static_cast<double>(steps[i]) * lives_[i].cost.seconds;
  }
}

void TimePass::round() {
  if (rounds_ % 2 == 0 || order_.size() != lives_.size()) {
    // Every order once forward and once reversed: mean positions are equal, and all neighbours occur.
    std::mt19937_64 random(run_.options.seed + static_cast<uint64_t>(rounds_));
    order_.resize(lives_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::shuffle(order_.begin(), order_.end(), random);
  } else {
    std::reverse(order_.begin(), order_.end());
  }
  for (size_t position = 0; position < order_.size(); ++position) {
    guard(lives_[order_[position]], [&](Live& live) {
      // On a device the first step after a switch is not timed: what it launches is loaded and planned then.
      if (run_.device.is_cuda()) timed_block(run_.world, run_.device, live.step, 1);
      const Times times = timed_block(run_.world, run_.device, live.step, live.blocks.steps);
      live.blocks.build.push_back(together_ ? builds_ - 1 : rounds_);
      live.blocks.position.push_back(static_cast<int64_t>(position));
      live.blocks.wall_ns.push_back(nanoseconds(times.wall));
      live.blocks.processor_ns.push_back(nanoseconds(times.processor));
      if (run_.device.is_cuda()) live.blocks.device_ns.push_back(nanoseconds(times.device));
    });
  }
  drop_failed();
  ++rounds_;
}

// Time is over, and the rounds that were asked for are done.
bool TimePass::late(Steady::time_point deadline) const {
  const bool over = rounds_ >= run_.options.preset.rounds && !run_.options.rounds && Steady::now() > deadline;
  return run_.world.from_rank_0(over ? 1 : 0) > 0;
}

void TimePass::one_build(int rounds, Steady::time_point deadline) {
  for (int i = 0; i < rounds && !lives_.empty(); ++i) {
    run_.stop_if_interrupted();
    if (i > 0 && i % 2 == 0 && late(deadline)) return;
    round();
  }
}

void TimePass::first_slice(double seconds) {
  const auto begin = Steady::now();
  const Preset& preset = run_.options.preset;
  build_all();
  measure_costs();
  look_at_switches(seconds);
  choose_blocks();
  const double left = seconds - since(begin);
  int builds = preset.builds;
  if (builds * build_seconds_ > kMostForBuilding * seconds) builds = std::min(builds, kBuildsWhenSlow);
  int rounds = run_.options.rounds.value_or(0);
  if (rounds > 0) {
    builds = std::clamp(rounds / 2, 1, builds);
  } else {
    rounds = std::max(preset.rounds, static_cast<int>((left - (builds - 1) * build_seconds_) / std::max(round_seconds_, 1e-9)));
  }
  if (preset.block_seconds == 0) rounds = std::min(rounds, run_.options.rounds.value_or(preset.rounds));
  rounds = static_cast<int>(run_.world.from_rank_0(rounds));
  builds = static_cast<int>(run_.world.from_rank_0(builds));
  const auto deadline = begin + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  for (int i = 0; i < builds && !lives_.empty(); ++i) {
    run_.progress.at(0.3 + 0.7 * i / builds, "time: " + std::to_string(rounds_) + " of " + std::to_string(rounds) + " rounds");
    if (i > 0 && late(deadline)) break;
    if (i > 0) build_all();
    // Whole pairs of rounds in each build, as equal as they can be.
    const int until = i + 1 == builds ? rounds : 2 * ((i + 1) * rounds / (2 * builds));
    one_build(until - rounds_, deadline);
  }
  keep_blocks();
  spent_ += since(begin);
}

void TimePass::next_slice(double seconds) {
  const auto begin = Steady::now();
  const auto deadline = begin + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  build_all();
  const double left = seconds - since(begin);
  one_build(static_cast<int>(run_.world.from_rank_0(std::max(2.0, 2 * std::floor(left / std::max(round_seconds_, 1e-9) / 2)))), deadline);
  keep_blocks();
  spent_ += since(begin);
}

// Hands over what was measured and lets go of what was built.
void TimePass::keep_blocks() {
  for (Candidate& candidate : run_.candidates) candidate.result.blocks.clear();
  for (Live& live : lives_) {
    live.step = {};
    live.candidate->result.blocks.push_back(live.blocks);
  }
}

double TimePass::width() const {
  double widest = 0;
  for (size_t i = 1; i + 1 < lives_.size(); ++i) {
    const SpeedVerdict verdict = judge_speed(lives_.front().blocks, lives_.back().blocks, lives_[i].blocks, run_.clock);
    widest = std::max(widest, verdict.ratio.width());
  }
  return widest;
}

bool TimePass::done() const { return lives_.empty() || run_.options.rounds || run_.options.preset.block_seconds == 0 || width() < kNarrow; }

double TimePass::seconds_to_rebuild(int steps) const {
  double seconds = build_seconds_;
  for (const Live& live : lives_) seconds += steps * live.cost.seconds;
  return seconds;
}

void share_time(const std::vector<TimePass*>& passes, const World& world, double seconds,
                const std::function<void(const TimePass&, double)>& progress) {
  const auto begin = Steady::now();
  while (true) {
    const double left = seconds - since(begin);
    TimePass* neediest = nullptr;
    double most = 0;
    size_t chosen = 0;
    for (size_t i = 0; i < passes.size(); ++i) {
      if (passes[i]->done() || passes[i]->shortest_slice() > left) continue;
      // An interval narrows with the root of the time spent on it, so this is what another second is worth.
      const double worth = passes[i]->width() / passes[i]->seconds_spent();
      if (worth > most) most = worth, neediest = passes[i], chosen = i + 1;
    }
    chosen = static_cast<size_t>(world.from_rank_0(neediest ? static_cast<double>(chosen) : 0));
    if (chosen == 0) return;
    TimePass& pass = *passes[chosen - 1];
    progress(pass, std::clamp(1 - left / seconds, 0.0, 1.0));
    pass.next_slice(
        world.from_rank_0(std::min(left, std::max({pass.shortest_slice(), 3 * pass.build_seconds(), pass.seconds_spent() / 4}))));
  }
}

}  // namespace tenfold
