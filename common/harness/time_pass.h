#pragma once
// Interleaved timing of one case: many short rounds, in each of which every variant runs one block and the baseline
// two. What moves the machine for longer than a round moves all of them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/harness/passes.h"
#include "common/harness/timed_block.h"
#include "common/measure/global_state.h"

namespace tenfold {

/// On a dry GPU: where a variant's threads load, they do it as fast as this host's, and not as those of a host with
/// such a card. Then no speed of the case is modelled, and its variants say so.
bool loads_by_threads_of_this_host(PartRun& run);

/// On a dry GPU whose time is modelled: the kernel launched since the last call of which nobody says how long it lasts,
/// as a reason; empty where there is none.
std::string not_modelled(const PartRun& run);

/// The time pass of one case. It measures in slices, so that a lesson's time can go to the case that needs it most.
/// Between slices nothing built is kept.
class TimePass {
 public:
  explicit TimePass(PartRun& run);

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

  void warm_up(const Step& step);
  bool with_live(Live& live, const std::function<void(Live&)>& work);
  void for_each_live(const std::function<void(Live&)>& work);
  void refuse_unpriced(Live& live);
  void drop_failed();
  void build_all();
  void measure_costs();
  int64_t steps_after_switch(const Live& live) const;
  void choose_clock_and_switches(double seconds);
  void choose_blocks();
  bool begins_untimed(const Live& live) const;
  void round();
  int rounds_in(double seconds) const;
  bool late(std::chrono::steady_clock::time_point deadline) const;
  void one_build(int rounds, std::chrono::steady_clock::time_point deadline);
  void keep_blocks();

  PartRun& run_;
  std::vector<Live> lives_;  // the baseline first and last
  bool together_ = true, with_threads_ = false;
  int builds_ = 0, rounds_ = 0;
  double build_seconds_ = 0;  ///< of all variants
  double round_seconds_ = 0;  ///< with all that a round needs besides its blocks
  double spent_ = 0;
  std::vector<size_t> order_;
};

/// What a built variant takes on its device: between two steps, and at the peak of one.
struct StepMemory {
  int64_t resting = 0, peak = 0;  ///< bytes
};

/// What built variants take together. Only one steps at a time: what all keep between their steps, and the largest
/// step's own need.
int64_t bytes_together(const std::vector<StepMemory>& lives);

/// Spends what is left of a lesson's time on those of its cases where it narrows intervals most. Depends on widths and
/// times, never on a verdict.
/// `progress` is told, before each slice, which pass is next and what part of the time is spent.
void share_time(const std::vector<TimePass*>& passes, const World& world, double seconds,
                const std::function<void(const TimePass&, double)>& progress);

}  // namespace tenfold
