#include "common/harness/measure_parts.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>

#include "common/base/seconds_since.h"
#include "common/base/text.h"
#include "common/harness/part_pass.h"
#include "common/harness/passes.h"
#include "common/harness/time_pass.h"
#include "common/measure/memory.h"

namespace tenfold {
namespace {

Size default_size(torch::Device device) {
  if (device.is_cpu()) return Size::cpu;
  return device_memory_bytes(device) > 60LL << 30 ? Size::gpu80 : Size::gpu8;
}

/// A setting that the lesson gives to a case and that nothing reads there is a mistake of the lesson. It is only known
/// where all variants are, with the settings that the lesson gave them: one that is typed may choose what reads
/// another. A baseline that cannot run here stops before it has read all of its own.
void check_own_settings(const PartRun& run) {
  const Options& options = run.options;
  if (!options.choice.only.empty() || !options.set.empty() || options.sweep || !run.candidates.front().ok()) return;
  std::set<std::string> known;
  for (const Candidate& candidate : run.candidates) {
    for (const auto& [name, value] : candidate.record->read) known.insert(name);
  }
  for (const auto& [name, value] : run.chosen.settings(run.size)) {
    if (known.contains(name)) continue;
    throw UsageError("lesson: '" + run.chosen.name + "': gives setting " + name + ", which nothing of it reads" +
                     (known.empty() ? "" : "; it reads: " + joined({known.begin(), known.end()})));
  }
}

using Steady = std::chrono::steady_clock;

PartRun run_of(const Lesson& lesson, const Chosen& chosen, const Options& options, const World& world,
               torch::Device device, const Machine& machine, Progress& progress, CountedGroups& groups) {
  const MeshShape& own = chosen.part.place.mesh;
  const MeshShape mesh = own.empty() ? MeshShape{{kDataParallel, kAllRanks}} : own;
  return {.lesson = lesson,
          .chosen = chosen,
          .options = options,
          .world = world,
          .device = device,
          .machine = machine,
          .size = options.size.value_or(default_size(device)),
          .clean = GlobalState::capture(device),
          .progress = progress,
          .groups = groups,
          .mesh = groups.mesh(shape_for(mesh, world.ranks.world_size))};
}

class LessonRun {
 public:
  LessonRun(const Lesson& lesson, FinishedParts& finished, const Options& options, const World& world,
            torch::Device device, const Machine& machine)
      : finished_(finished),
        parts_(finished.left()),
        options_(options),
        world_(world),
        progress_(world.ranks.rank == 0),
        groups_(world),
        unread_(options.typed_settings()) {
    for (const Chosen& chosen : parts_)
      passes_.push_back(pass_of(run_of(lesson, chosen, options, world, device, machine, progress_, groups_)));
  }

  /// False when it was asked to stop before the end.
  bool measure() {
    const Preset& preset = options_.preset;
    const auto sharing = std::max<double>(
        1, static_cast<double>(std::ranges::count_if(passes_, [](const auto& pass) { return pass->shares_time(); })));
    double seconds = preset.case_seconds * sharing;
    if (preset.lesson_seconds > 0) seconds = std::min(seconds, preset.lesson_seconds);
    const auto begin = Steady::now();
    try {
      for (size_t i = 0; i < passes_.size(); ++i) {
        // Not before the surveys: one may look at what a program does when it has just begun.
        if (passes_[i]->shares_time() && !options_.typed_settings().empty()) build_ahead();
        if (refused()) break;
        const auto parts = static_cast<double>(passes_.size());
        const double from = kFirstSlices * static_cast<double>(i) / parts;
        progress_.begin(parts_[i].name, from, from + kFirstSlices / parts);
        first_passes(*passes_[i], kForTiming * seconds / sharing);
      }
      share_rest(begin, seconds);
      for (PartPass* const pass : measured_) {
        if (pass->time() == nullptr) continue;
        progress_.begin(pass->run().chosen.name, kAllTimed, 1);
        pass->finish();
      }
    } catch (const Interrupted&) {
      return false;
    }
    return true;
  }

  /// Surveys and trainings that no time was left for, since the preset has none.
  std::vector<std::string> left_out() const {
    std::vector<std::string> names;
    for (const auto& pass : passes_) {
      if (options_.preset.updates > 0 && !pass->wanted()) names.push_back(pass->run().chosen.name);
    }
    return names;
  }

  /// Typed settings that nothing reads, once every part was asked: of one that was kept it is not known.
  std::vector<std::string> unread() const {
    return finished_.kept().empty() && asked_.size() == passes_.size() && !unsure_
               ? std::vector(unread_.begin(), unread_.end())
               : std::vector<std::string>();
  }

  std::vector<CaseResult> results() const {
    std::vector<CaseResult> results;
    for (const PartPass* const pass : measured_) results.push_back(pass->result());
    return results;
  }

 private:
  // Parts of a lesson's time: for timing; and of the progress that is shown: after the first slices, after all timing.
  static constexpr double kForTiming = 0.6, kFirstSlices = 0.65, kAllTimed = 0.95;

  /// Variants read their settings while they are built: so most of what nothing reads is known before anything is
  /// measured.
  void build_ahead() {
    if (built_ahead_) return;
    built_ahead_ = true;
    for (const auto& pass : passes_) {
      if (!pass->shares_time()) continue;
      progress_.begin(pass->run().chosen.name, 0, 0);
      progress_.at(0, "building");
      pass->run().stop_if_interrupted();
      if (pass->build()) ask(pass->run());
    }
  }

  /// Which of the typed settings a part has read. A baseline that cannot run here stops before it has read all of its
  /// own: then nothing is known. Throws UsageError for a sweep of what nothing reads: its points would have the names
  /// of values that nobody used.
  void ask(const PartRun& run) {
    if (!asked_.insert(&run).second) return;
    if (!run.candidates.front().ok()) unsure_ = true;
    for (const Candidate& candidate : run.candidates) {
      for (const auto& [name, value] : candidate.record->read) read_.insert(name);
    }
    std::erase_if(unread_, [&](const std::string& name) { return world_.max(read_.contains(name) ? 1 : 0) > 0; });
    if (options_.sweep && unread_.contains(options_.sweep->setting) && !unsure_)
      throw UsageError(refusal_of_settings({options_.sweep->setting}, parts_, read_));
  }

  /// True when it is known that nothing reads a typed setting. Throws UsageError when nothing was measured until then.
  bool refused() const {
    if (unread().empty() || other_starts()) return false;
    if (measured_.empty()) throw UsageError(refusal_of_settings(unread_, parts_, read_));
    return true;
  }

  void first_passes(PartPass& pass, double seconds) {
    if (!pass.wanted()) return;
    const auto begin = Steady::now();
    progress_.at(0, "building");
    const SettingsWatch watch{.settings_read =
                                  [this](const PartRun& run) {
                                    check_own_settings(run);
                                    if (!options_.typed_settings().empty()) ask(run);
                                  },
                              .goes_on = [this] { return !refused(); }};
    pass.measure(seconds, watch);
    if (pass.time() == nullptr) other_seconds_ += seconds_since(begin);
    progress_.at(1, "measured");
    measured_.push_back(&pass);
    finished_.write(results());
  }

  void share_rest(Steady::time_point begin, double seconds) {
    const SplitSteps split = split_steps(options_.preset);
    double left = seconds + other_seconds_ - seconds_since(begin);
    std::vector<TimePass*> passes;
    for (PartPass* const pass : measured_) {
      if (pass->time() == nullptr) continue;
      left -= pass->time()->seconds_to_rebuild(split.warm_up + split.seen);
      passes.push_back(pass->time());
    }
    share_time(passes, world_, world_.from_rank_0(left), [&](const TimePass& chosen, double part) {
      for (PartPass* const pass : measured_) {
        if (pass->time() == &chosen) progress_.begin(pass->run().chosen.name, kFirstSlices, kAllTimed);
      }
      progress_.at(part, "time: more rounds where the interval is widest");
    });
  }

  FinishedParts& finished_;
  const std::vector<Chosen>& parts_;
  const Options& options_;
  const World& world_;
  Progress progress_;
  CountedGroups groups_;
  std::vector<std::unique_ptr<PartPass>> passes_;  // one for each part
  std::vector<PartPass*> measured_;
  double other_seconds_ = 0;  // of surveys and trainings, which have no part in the lesson's time
  bool built_ahead_ = false;
  std::set<std::string> unread_, read_;  // typed settings that nothing has read yet; all settings that were read
  std::set<const PartRun*> asked_;       // of the parts that have read all they would
  bool unsure_ = false;                  // one of them stopped before
};

}  // namespace

MeasuredParts measure_parts(const Lesson& lesson, FinishedParts& finished, const Options& options, const World& world,
                            torch::Device device, const Machine& machine) {
  LessonRun all(lesson, finished, options, world, device, machine);
  MeasuredParts measured;
  measured.to_the_end = all.measure();
  measured.results = all.results();
  measured.unread = all.unread();
  measured.left_out = all.left_out();
  return measured;
}

std::string refusal_of_settings(const std::set<std::string>& unread, const std::vector<Chosen>& chosen,
                                const std::set<std::string>& read) {
  std::vector<std::string> parts;
  for (const Chosen& part : chosen) {
    if (!part.sweep) parts.push_back("'" + part.name + "'");
  }
  return "setting " + joined({unread.begin(), unread.end()}) + ": nothing " +
         (parts.empty() ? "in the case that is swept" : "in " + joined(parts)) + " reads it" +
         (read.empty() ? "" : "; settings that are read: " + joined({read.begin(), read.end()}));
}

bool other_starts() { return std::getenv(kOtherStarts) != nullptr; }

}  // namespace tenfold
