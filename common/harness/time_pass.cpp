#include "common/harness/time_pass.h"

#include "common/base/seconds_since.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/result/judge.h"
#include "common/result/statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace tenfold {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int kSwitches = 8;                  // for which a step right after a switch is compared with the next one
constexpr double kMostForSwitches = 0.1;      // of the time
constexpr double kReadingClocks = 5e-6;       // seconds
constexpr double kMostForBuilding = 1.0 / 3;  // of the time
constexpr int kBuildsWhenSlow = 2;
constexpr double kRebuiltWarmUp = 0.2;  // seconds, of what is built for one block
constexpr double kNarrow = 0.01;        // relative width of an interval that needs no more rounds

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(std::llround(1e9 * seconds)); }

// If not, each variant is built anew for each of its blocks.
bool fit_together(const PartRun& run) {
  std::vector<StepMemory> lives;
  for (const Candidate& candidate : run.candidates) {
    const auto peak = candidate.result.peak();
    if (!candidate.ok() || !peak) continue;
    const size_t copies = &candidate == &run.candidates.front() ? 2 : 1;
    lives.insert(lives.end(), copies, {candidate.resting_bytes, *peak});
  }
  constexpr double kMost = 0.8;  // of what is free: displays and other programs have some
  return static_cast<double>(bytes_together(lives)) < kMost * static_cast<double>(free_memory_bytes(run.device));
}

}  // namespace

int64_t bytes_together(const std::vector<StepMemory>& lives) {
  int64_t resting = 0, stepping = 0;
  for (const StepMemory& live : lives) {
    resting += live.resting;
    stepping = std::max(stepping, live.peak - live.resting);
  }
  return resting + stepping;
}

std::string not_modelled(const PartRun& run) {
  const std::vector<std::string> kernels = run.only_memory() ? taken_without_price() : std::vector<std::string>();
  return kernels.empty() ? "" : "nobody says how long kernel " + kernels.front() + " lasts";
}

bool loads_by_threads_of_this_host(PartRun& run) {
  if (!run.only_memory() || std::ranges::none_of(run.candidates, &Candidate::has_threads)) return false;
  for (Candidate& candidate : run.candidates) {
    if (candidate.ok())
      candidate.result.environment[kNotModelled] =
          "threads load in this case, and this host's are not those of a host with such a card";
  }
  return true;
}

TimePass::TimePass(PartRun& run) : run_(run) {
  for (Candidate& candidate : run.candidates) {
    if (candidate.ok()) lives_.push_back({&candidate, run.clean});
  }
  lives_.push_back({&run.candidates.front(), run.clean});
  together_ = run.world.max(fit_together(run) ? 0 : 1) == 0;  // the same on every rank: building may need all of them
  drop_failed();
}

// First calls allocate, choose algorithms and fill caches. What is built for one block also has to wake a device that
// has lowered its clocks meanwhile; a dry GPU has none to lower.
void TimePass::warm_up(const Step& step) {
  const auto begin = Steady::now();
  const double least = together_ || run_.only_memory() ? 0 : kRebuiltWarmUp;
  bool longer = true;
  while (longer) {
    timed_block(run_.world, run_.device, step, 2);
    longer = run_.world.max(seconds_since(begin) < least ? 1 : 0) > 0;
  }
}

// Does something with a variant that is built, warmed up and as it left itself.
bool TimePass::with_live(Live& live, const std::function<void(Live&)>& work) {
  if (!live.candidate->ok()) return false;
  const bool build = !live.step.update;
  bool ok = true;
  if (build) {
    // Agreed on before any rank steps: the others would wait in its first collective for one that could not be built.
    ok = run_.guarded(*live.candidate, [&] {
      live.step = run_.build(*live.candidate);
      live.state = GlobalState::capture(run_.device);
    });
  }
  ok = ok && run_.guarded(*live.candidate, [&] {
    live.state.restore();
    if (build) warm_up(live.step);
    work(live);
    refuse_unpriced(live);
    live.state = GlobalState::capture(run_.device);
  });
  // What failed may have left its threads awake.
  if (!ok || !together_) live.step = {};
  return ok;
}

void TimePass::for_each_live(const std::function<void(Live&)>& work) {
  for (Live& live : lives_) with_live(live, work);
  drop_failed();
}

// On a dry GPU. With a kernel of which nobody says how long it lasts no speed is modelled.
void TimePass::refuse_unpriced(Live& live) {
  std::string reason = not_modelled(run_);
  if (const auto& process = live.candidate->process; process && process->environment().contains(kNotModelled))
    reason = process->environment().at(kNotModelled);
  if (!reason.empty()) live.candidate->result.environment[kNotModelled] = reason;
}

// A technique that failed leaves the others alone; without the baseline there is nothing to compare with.
void TimePass::drop_failed() {
  std::erase_if(lives_, [](const Live& live) {
    return !live.candidate->ok() || live.candidate->result.environment.contains(kNotModelled);
  });
  const bool comparable = lives_.size() > 2 && lives_.front().candidate == &run_.candidates.front();
  if (!comparable) lives_.clear();
}

void TimePass::build_all() {
  for (Live& live : lives_) live.step = {};
  const auto begin = Steady::now();
  // In an order that is drawn as well: who is built first finds another heap than who is built last.
  for (const size_t i : drawn_order(lives_.size(), run_.options.seed + static_cast<uint64_t>(builds_))) {
    if (together_) with_live(lives_[i], [](Live&) {});
  }
  drop_failed();
  build_seconds_ = run_.world.from_rank_0(seconds_since(begin));
  ++builds_;
}

void TimePass::measure_costs() {
  const auto begin = Steady::now();
  for_each_live([&](Live& live) {
    live.cost.threads = live.step.park != nullptr;
    live.cost.batches_ahead = live.step.batches_ahead;
    live.cost.items = live.step.items;
    // More steps than can come out of a store. The shortest time of some: what interrupts a step only makes it longer,
    // and equal code must not seem unequal. Where nothing is claimed, no block is chosen by it.
    const int64_t steps = live.cost.batches_ahead + 1;
    const int times = run_.options.preset.claims_speed() ? 3 : 1;
    for (int i = 0; i < times; ++i) {
      const double seconds =
          timed_block(run_.world, run_.device, live.step, steps).seconds() / static_cast<double>(steps);
      live.cost.seconds = i == 0 ? seconds : std::min(live.cost.seconds, seconds);
    }
    if (!live.cost.threads && !run_.world.group) return;
    std::vector<double> empty;
    for (int i = 0; i < 5; ++i) empty.push_back(timed_block(run_.world, run_.device, live.step, 0).wall);
    live.cost.overhead = median(empty);
  });
  for (Live& live : lives_) {
    live.cost.seconds = run_.world.from_rank_0(live.cost.seconds);
    live.cost.overhead = run_.world.from_rank_0(live.cost.overhead);
  }
  // What does not fit together is built and warmed up for each block.
  round_seconds_ = together_ ? 0 : run_.world.from_rank_0(seconds_since(begin));
}

// A step right after a switch to another process finds not even its program in the caches, and so do those after it:
// a shortest block of them is compared with the next.
int64_t TimePass::steps_after_switch(const Live& live) const {
  if (!live.candidate->variant().process || live.cost.seconds <= 0) return 1;
  return static_cast<int64_t>(std::ceil(run_.options.preset.block_seconds / live.cost.seconds));
}

// Where a step has its thread to itself and waits for nothing, processor time is the better clock: it leaves out what
// other programs took. And a step right after another variant's finds caches that are not its own.
void TimePass::choose_clock_and_switches(double seconds) {
  double steps = 0;
  bool alone = run_.device.is_cpu() && !run_.world.group && run_.options.threads == 1 && together_ && !with_threads_;
  for (const Live& live : lives_) {
    steps += static_cast<double>(steps_after_switch(live)) * live.cost.seconds;
    alone = alone && !live.cost.threads;
  }
  run_.clock = run_.device.is_cuda() ? Clock::device : Clock::wall;
  if (!alone || !run_.options.preset.claims_speed()) return;
  // A step below the clock's resolution costs nothing.
  const double affordable = steps > 0 ? kMostForSwitches * seconds / (2 * steps) : kSwitches;
  const int switches = static_cast<int>(std::clamp(affordable, 2.0, double{kSwitches}));
  int64_t waits = 0;
  double process = 0, thread = 0;
  std::vector<std::vector<double>> penalties(lives_.size());
  for (int i = 0; i < switches; ++i) {
    for (size_t j = 0; j < lives_.size(); ++j) {
      with_live(lives_[j], [&](Live& live) {
        const int64_t count = steps_after_switch(live);
        const Times first = timed_block(run_.world, run_.device, live.step, count),
                    second = timed_block(run_.world, run_.device, live.step, count);
        penalties[j].push_back(first.processor / second.processor - 1);
        process += first.processor + second.processor;
        thread += first.thread + second.thread;
        waits += first.waits + second.waits;
      });
    }
  }
  // Reading the clocks takes microseconds that are in the process's time alone.
  const double reading = 2 * kReadingClocks * switches * static_cast<double>(lives_.size());
  if (waits == 0 && process < 1.01 * thread + reading) run_.clock = Clock::processor;
  for (size_t j = 0; j < lives_.size(); ++j) {
    if (penalties[j].empty()) continue;
    const Interval penalty = median_interval(penalties[j]);
    // Without coverage too few to tell: a step this long outlasts the caches it found.
    if (penalty.coverage > 0 && penalty.low > 0)
      lives_[j].cost.overhead =
          std::max(0.0, penalty.middle) * static_cast<double>(steps_after_switch(lives_[j])) * lives_[j].cost.seconds;
  }
  drop_failed();
}

void TimePass::choose_blocks() {
  std::vector<StepCost> costs;
  for (const Live& live : lives_) costs.push_back(live.cost);
  const std::vector<int64_t> steps = block_steps(costs, run_.options.preset.block_seconds, run_.device.is_cuda());
  for (size_t i = 0; i < lives_.size(); ++i) {
    // The two baselines are the same code and run the same blocks, however their costs were measured.
    const bool baseline = i == 0 || i + 1 == lives_.size();
    lives_[i].blocks.steps = baseline ? std::max(steps.front(), steps.back()) : steps[i];
    lives_[i].blocks.items = lives_[i].blocks.steps * costs[i].items;
    const int64_t untimed = begins_untimed(lives_[i]) ? 1 : 0;
    round_seconds_ += static_cast<double>(lives_[i].blocks.steps + untimed) * costs[i].seconds;
  }
}

// On a device the first step after a switch is not timed: what it launches is loaded and planned then. In a long step
// that is nothing.
bool TimePass::begins_untimed(const Live& live) const {
  constexpr double kLongStep = 0.5;  // seconds
  return run_.device.is_cuda() && live.cost.seconds < kLongStep;
}

void TimePass::round() {
  if (rounds_ % 2 == 0 || order_.size() != lives_.size()) {
    // Every order once forward and once reversed: mean positions are equal, and all neighbours occur.
    order_ = drawn_order(lives_.size(), run_.options.seed + static_cast<uint64_t>(rounds_));
  } else {
    std::reverse(order_.begin(), order_.end());
  }
  for (size_t position = 0; position < order_.size(); ++position) {
    // Ranks agree on it once a round, since asking them takes time that every block would have.
    if (!run_.world.group) run_.stop_if_interrupted();
    with_live(lives_[order_[position]], [&](Live& live) {
      if (begins_untimed(live)) timed_block(run_.world, run_.device, live.step, 1);
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

int TimePass::rounds_in(double seconds) const {
  constexpr double kMost = 1e6;
  return static_cast<int>(std::clamp(seconds / std::max(round_seconds_, 1e-9), 0.0, kMost));
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
  const int threads = threads_of_this_process();
  build_all();
  with_threads_ = threads_of_this_process() > threads;
  measure_costs();
  choose_clock_and_switches(seconds);
  choose_blocks();
  if (lives_.empty()) return;
  const double left = seconds - seconds_since(begin);
  int builds = preset.builds;
  if (builds * build_seconds_ > kMostForBuilding * seconds) builds = std::min(builds, kBuildsWhenSlow);
  int rounds = run_.options.rounds.value_or(0);
  if (rounds > 0) {
    builds = std::clamp(rounds / 2, 1, builds);
  } else {
    rounds = std::max(preset.rounds, rounds_in(left - (builds - 1) * build_seconds_));
  }
  if (!preset.claims_speed()) rounds = std::min(rounds, run_.options.rounds.value_or(preset.rounds));
  rounds = static_cast<int>(run_.world.from_rank_0(rounds));
  builds = static_cast<int>(run_.world.from_rank_0(builds));
  const auto deadline = begin + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  for (int i = 0; i < builds && !lives_.empty(); ++i) {
    run_.progress.at(0.3 + 0.7 * i / builds,
                     "time: " + std::to_string(rounds_) + " of " + std::to_string(rounds) + " rounds");
    if (i > 0 && late(deadline)) break;
    if (i > 0) build_all();
    // Whole pairs of rounds in each build, as equal as they can be.
    const int until = i + 1 == builds ? rounds : 2 * static_cast<int>(int64_t{i + 1} * rounds / (2 * builds));
    one_build(until - rounds_, deadline);
  }
  keep_blocks();
  spent_ += seconds_since(begin);
}

void TimePass::next_slice(double seconds) {
  const auto begin = Steady::now();
  const auto deadline = begin + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  build_all();
  if (lives_.empty()) return keep_blocks();  // the baseline has failed: what was measured against it goes, too
  const int pairs = rounds_in(seconds - seconds_since(begin)) / 2;
  one_build(2 * static_cast<int>(run_.world.from_rank_0(std::max(1, pairs))), deadline);
  keep_blocks();
  spent_ += seconds_since(begin);
}

// Hands over what was measured and lets go of what was built.
void TimePass::keep_blocks() {
  for (Candidate& candidate : run_.candidates) candidate.result.blocks.clear();
  for (Live& live : lives_) {
    live.step = {};
    live.candidate->result.blocks.push_back(live.blocks);
  }
  run_.end_processes();
}

double TimePass::width() const {
  double widest = 0;
  for (size_t i = 1; i + 1 < lives_.size(); ++i) {
    const SpeedVerdict verdict = judge_speed(lives_.front().blocks, lives_.back().blocks, lives_[i].blocks, run_.clock);
    widest = std::max(widest, verdict.ratio.width());
  }
  return widest;
}

bool TimePass::done() const {
  return lives_.empty() || run_.options.rounds || !run_.options.preset.claims_speed() || run_.crowded() ||
         width() < kNarrow;
}

double TimePass::seconds_to_rebuild(int steps) const {
  double seconds = build_seconds_;
  for (const Live& live : lives_) seconds += steps * live.cost.seconds;
  return seconds;
}

void share_time(const std::vector<TimePass*>& passes, const World& world, double seconds,
                const std::function<void(const TimePass&, double)>& progress) {
  const auto begin = Steady::now();
  while (true) {
    const double left = seconds - seconds_since(begin);
    double most = 0;
    size_t chosen = 0;  // from 1
    for (size_t i = 0; i < passes.size(); ++i) {
      if (passes[i]->done() || passes[i]->shortest_slice() > left) continue;
      // An interval narrows with the root of the time spent on it, so this is what another second is worth.
      const double worth = passes[i]->width() / passes[i]->seconds_spent();
      if (worth <= most) continue;
      most = worth;
      chosen = i + 1;
    }
    chosen = static_cast<size_t>(world.from_rank_0(static_cast<double>(chosen)));
    if (chosen == 0) return;
    TimePass& pass = *passes[chosen - 1];
    progress(pass, std::clamp(1 - left / seconds, 0.0, 1.0));
    pass.next_slice(world.from_rank_0(
        std::min(left, std::max({pass.shortest_slice(), 3 * pass.build_seconds(), pass.seconds_spent() / 4}))));
  }
}

}  // namespace tenfold
