#pragma once
// Interleaved timing of one case: many short rounds, in each of which every variant runs one block and the baseline two.
// What moves the machine for longer than a round moves all of them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include <tenfold/clock.h>
#include <tenfold/global_state.h>
#include <tenfold/passes.h>

namespace tenfold {

/// Times `steps` calls; wall and device are the slowest rank's. Losses are read after the clocks have stopped; one that
/// is not finite throws NotFinite.
Times timed_block(const World& world, torch::Device device, const Step& step, int64_t steps);

/// What the length of a variant's blocks is chosen from.
struct StepCost {
  double seconds = 0;         ///< of a step
  double overhead = 0;        ///< of a block without steps: threads woken and parked, barriers of ranks
  bool threads = false;       ///< the variant has some of its own
  int64_t batches_ahead = 0;  ///< that they may have ready
};

/// Steps in a block of each variant. One step or `block_seconds`, whichever is longer; longer where a block's overhead would
/// be more than 1 % of it; more steps than batches that its threads may have ready. On a device, whose launches run ahead,
/// at least three steps and 50 ms. Where threads or a device are at work, all blocks last as long as the longest one: a
/// short block gives its variant what the others pay for. `block_seconds` 0: one step each.
std::vector<int64_t> block_steps(const std::vector<StepCost>& costs, double block_seconds, bool on_device);

/// The time pass of one case. It measures in slices, so that a lesson's time can go to the case that needs it most.
/// Between slices nothing built is kept.
class TimePass {
 public:
  explicit TimePass(CaseRun& run);

  /// Chooses block lengths and the clock, then measures for `seconds`, but no fewer rounds than the preset asks for.
  void first_slice(double seconds);
  /// Measures for about `seconds` more, at least one build with two rounds.
  void next_slice(double seconds);

  /// Nothing more to learn here: all intervals are narrow, or nothing is left to compare.
  bool done() const;
  /// The widest interval of a technique, relative to its ratio.
  double width() const;
  double seconds_spent() const { return spent_; }
  double build_seconds() const { return build_seconds_; }
  /// What the shortest slice takes: everything built and warmed up once, and two rounds.
  double shortest_slice() const { return build_seconds_ + 2 * round_seconds_; }
  /// What building every variant once more and a few steps of each will take.
  double seconds_to_rebuild(int steps) const;

 private:
  // A variant between its blocks: with the random state and the flags that it left.
  struct Live {
    Candidate* candidate;
    GlobalState state;
    Step step = {};
    Blocks blocks = {};
    StepCost cost = {};
  };

  bool guard(Live& live, const std::function<void(Live&)>& work);
  void for_each_live(const std::function<void(Live&)>& work);
  void drop_failed();
  void build_all();
  void measure_costs();
  void look_at_switches(double seconds);
  void choose_blocks();
  void round();
  bool late(std::chrono::steady_clock::time_point deadline) const;
  void one_build(int rounds, std::chrono::steady_clock::time_point deadline);
  void keep_blocks();

  CaseRun& run_;
  std::vector<Live> lives_;  // the baseline first and last
  bool together_ = true;
  int builds_ = 0, rounds_ = 0;
  double build_seconds_ = 0, round_seconds_ = 0, spent_ = 0;
  std::vector<size_t> order_;
};

/// Spends what is left of a lesson's time on those of its cases where it narrows intervals most. Depends on widths and
/// times, never on a verdict.
/// `progress` is told, before each slice, which pass is next and what part of the time is spent.
void share_time(const std::vector<TimePass*>& passes, const World& world, double seconds,
                const std::function<void(const TimePass&, double)>& progress);

}  // namespace tenfold
