#include "common/harness/measure_cases.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>

#include "common/base/seconds_since.h"
#include "common/base/text.h"
#include "common/harness/budget_pass.h"
#include "common/harness/lesson_check.h"
#include "common/harness/passes.h"
#include "common/harness/time_pass.h"
#include "common/harness/training_pass.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

Size default_size(torch::Device device) {
  if (device.is_cpu()) return Size::cpu;
  return device_memory_bytes(device) > 60LL << 30 ? Size::gpu80 : Size::gpu8;
}

/// A setting that the lesson gives to a case and that nothing reads there is a mistake of the lesson. It is only known
/// where all variants are, with the settings that the lesson gave them: one that is typed may choose what reads
/// another. A baseline that cannot run here stops before it has read all of its own.
void check_own_settings(const CaseRun& run) {
  const Options& options = run.options;
  if (!options.only.empty() || !options.set.empty() || options.sweep || !run.candidates.front().ok()) return;
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

CaseResult collect(const CaseRun& run) {
  CaseResult result;
  result.name = run.chosen.name;
  result.kind = run.chosen.survey != nullptr ? "survey" : run.chosen.training != nullptr ? "training" : "comparison";
  if (run.chosen.compared != nullptr) result.workload = workload_of(run.lesson, *run.chosen.compared);
  if (run.chosen.training != nullptr) {
    result.workload = workload_of(run.lesson, *run.chosen.training);
    result.metric = run.chosen.training->metric;
  }
  result.size = to_string(run.size);
  const bool dry = run.device.is_cuda() && dry_card();
  result.device = dry ? "dry" : run.device.is_cuda() ? "cuda" : "cpu";
  result.dtype = "float32";
  result.flags = {{"tf32_matmul", at::globalContext().allowTF32CuBLAS()},
                  {"tf32_cudnn", at::globalContext().allowTF32CuDNN()}};
  result.ranks = run.world.ranks.world_size;
  for (const auto& dimension : run.mesh.dimensions()) result.mesh[dimension.name] = dimension.size;
  result.backend = run.world.backend;
  result.threads = run.options.threads;
  result.preset = run.options.preset.name;
  result.seed = static_cast<int64_t>(run.options.seed);
  result.clock = run.clock;
  result.sweep = run.chosen.sweep;
  if (run.chosen.compared != nullptr && run.chosen.compared->budget) {
    const SameBudget& budget = *run.chosen.compared->budget;
    result.budget = Budget{budget.bytes.at(run.size), budget.setting};
  }
  for (const Candidate& candidate : run.candidates) {
    for (const auto& [name, value] : candidate.record->read) result.settings[name] = value;
    VariantResult variant = candidate.result;
    variant.notes = candidate.record->notes;
    if (dry) variant.source = "dry";
    variant.environment["malloc"] = "fixed thresholds: mmap 32 MiB, trim 2000 MiB, top pad 64 MiB";
    if (const Ranks& ranks = run.world.ranks; ranks.local_size != ranks.world_size)
      variant.environment[kRanksHere] = std::to_string(ranks.local_size);
    result.variants.push_back(std::move(variant));
    if (candidate.agreement) {
      Verdict verdict;
      verdict.technique = candidate.name;
      verdict.agreement = candidate.agreement;
      result.verdicts.push_back(verdict);
    }
  }
  // The setting that grew is each variant's own; the case's is what agreement was checked at.
  if (run.own_budget_value) result.settings[result.budget->setting] = *run.own_budget_value;
  if (result.kind != "survey") judge(result, run.machine.cores);
  return result;
}

std::unique_ptr<CaseRun> start_case(const Lesson& lesson, const Chosen& chosen, const Options& options,
                                    const World& world, torch::Device device, const Machine& machine,
                                    Progress& progress, CountedGroups& groups) {
  const MeshShape all = {{kDataParallel, world.ranks.world_size}};
  const bool shaped = chosen.compared != nullptr && !chosen.compared->mesh.empty();
  auto run = std::make_unique<CaseRun>(CaseRun{.lesson = lesson,
                                               .chosen = chosen,
                                               .options = options,
                                               .world = world,
                                               .device = device,
                                               .machine = machine,
                                               .size = options.size.value_or(default_size(device)),
                                               .clean = GlobalState::capture(device),
                                               .progress = progress,
                                               .groups = groups,
                                               .mesh = groups.mesh(shaped ? chosen.compared->mesh : all),
                                               .candidates = {}});
  const auto add = [&](Candidate candidate) {
    candidate.record->declared = &lesson.settings;
    candidate.record->given = chosen.settings(run->size);
    candidate.result.name = candidate.name;
    run->candidates.push_back(std::move(candidate));
  };
  const auto wanted = [&](const std::string& name) { return options.wants(name); };
  if (chosen.survey != nullptr) {
    for (const Look& look : chosen.survey->looks) {
      if (wanted(look.name)) add({.name = look.name, .look = &look});
    }
    return run;
  }
  // A point of a sweep: what it should show is not stated point by point.
  const auto expect = [&](std::optional<Expected> expected) {
    if (expected && chosen.sweep) expected = Expected{.kind = expected->kind};
    run->candidates.back().result.expected = std::move(expected);
  };
  if (chosen.training != nullptr) {
    for (const Run& trained : chosen.training->runs) {
      if (&trained != &chosen.training->runs.front() && !wanted(trained.name)) continue;
      add({.name = trained.name, .run = &trained});
      expect(expected_of(*chosen.training, trained, device));
    }
    return run;
  }
  add({.name = lesson.baseline.name, .variant = &lesson.baseline});
  for (const Variant& technique : lesson.techniques) {
    if (!wanted(technique.name) || !compares(*chosen.compared, technique.name)) continue;
    add({.name = technique.name, .variant = &technique});
    expect(expected_of(*chosen.compared, technique.name, device));
  }
  return run;
}

/// A case on its way through the lesson.
struct Measured {
  std::unique_ptr<CaseRun> run;
  std::unique_ptr<TimePass> time = nullptr;  ///< of a comparison only
};

class LessonRun {
 public:
  LessonRun(const Lesson& lesson, const std::vector<Chosen>& cases, const Options& options, const World& world,
            torch::Device device, const Machine& machine)
      : lesson_(lesson),
        cases_(cases),
        options_(options),
        world_(world),
        device_(device),
        machine_(machine),
        progress_(world.ranks.rank == 0),
        groups_(world),
        built_(cases.size()),
        unread_(options.typed_settings()) {}

  /// False when it was asked to stop before the end.
  bool measure() {
    const Preset& preset = options_.preset;
    const auto compared = static_cast<double>(
        std::ranges::count_if(cases_, [](const Chosen& chosen) { return chosen.compared != nullptr; }));
    double seconds = preset.case_seconds * std::max(1.0, compared);
    if (preset.lesson_seconds > 0) seconds = std::min(seconds, preset.lesson_seconds);
    const auto begin = Steady::now();
    try {
      for (size_t i = 0; i < cases_.size(); ++i) {
        // Not before the surveys: one may look at what a program does when it has just begun.
        if (cases_[i].compared != nullptr && !options_.typed_settings().empty()) build_ahead();
        if (refused()) break;
        const double from = kFirstSlices * static_cast<double>(i) / static_cast<double>(cases_.size());
        progress_.begin(cases_[i].name, from, from + kFirstSlices / static_cast<double>(cases_.size()));
        first_passes(i, kForTiming * seconds / std::max(1.0, compared));
      }
      share_rest(begin, seconds);
      for (const Measured& measured : measured_) {
        if (!measured.time) continue;
        progress_.begin(measured.run->chosen.name, kAllTimed, 1);
        split_pass(*measured.run);
      }
    } catch (const Interrupted&) {
      return false;
    }
    return true;
  }

  /// Surveys and trainings that no time was left for, since the preset has none.
  std::vector<std::string> left_out() const {
    std::vector<std::string> names;
    for (const Chosen& chosen : cases_) {
      if (!options_.preset.timed && options_.preset.updates > 0 && chosen.compared == nullptr && !of_memory(chosen))
        names.push_back(chosen.name);
    }
    return names;
  }

  /// Typed settings that nothing reads, once every part was asked.
  std::vector<std::string> unread() const {
    return asked_ == cases_.size() && !unsure_ ? std::vector(unread_.begin(), unread_.end())
                                               : std::vector<std::string>();
  }

  std::vector<CaseResult> results() const {
    std::vector<CaseResult> results;
    for (const Measured& measured : measured_) results.push_back(collect(*measured.run));
    return results;
  }

 private:
  // Parts of a lesson's time: for timing; and of the progress that is shown: after the first slices, after all timing.
  static constexpr double kForTiming = 0.6, kFirstSlices = 0.65, kAllTimed = 0.95;

  /// On a dry GPU that computes nothing a survey of memory says what a card would.
  bool of_memory(const Chosen& chosen) const {
    return only_memory_ && chosen.survey != nullptr && chosen.survey->of_memory;
  }

  std::unique_ptr<CaseRun> start(const Chosen& chosen) {
    return start_case(lesson_, chosen, options_, world_, device_, machine_, progress_, groups_);
  }

  /// Variants read their settings while they are built: so most of what nothing reads is known before anything is
  /// measured.
  void build_ahead() {
    if (built_ahead_) return;
    built_ahead_ = true;
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (cases_[i].compared == nullptr) continue;
      progress_.begin(cases_[i].name, 0, 0);
      progress_.at(0, "building");
      built_[i] = start(cases_[i]);
      built_[i]->stop_if_interrupted();
      build_pass(*built_[i]);
      ask(*built_[i]);
    }
  }

  /// Which of the typed settings a part has read. A baseline that cannot run here stops before it has read all of its
  /// own: then nothing is known. Throws UsageError for a sweep of what nothing reads: its points would have the names
  /// of values that nobody used.
  void ask(const CaseRun& run) {
    ++asked_;
    if (!run.candidates.front().ok()) unsure_ = true;
    for (const Candidate& candidate : run.candidates) {
      for (const auto& [name, value] : candidate.record->read) read_.insert(name);
    }
    std::erase_if(unread_, [&](const std::string& name) { return world_.max(read_.contains(name) ? 1 : 0) > 0; });
    if (options_.sweep && unread_.contains(options_.sweep->setting) && !unsure_)
      throw UsageError(refusal_of_settings({options_.sweep->setting}, cases_, read_));
  }

  /// True when it is known that nothing reads a typed setting. Throws UsageError when nothing was measured until then.
  bool refused() const {
    if (unread().empty() || other_starts()) return false;
    if (measured_.empty()) throw UsageError(refusal_of_settings(unread_, cases_, read_));
    return true;
  }

  void first_passes(size_t place, double seconds) {
    const Chosen& chosen = cases_[place];
    const bool built = built_[place] != nullptr;
    Measured measured{built ? std::move(built_[place]) : start(chosen)};
    CaseRun& run = *measured.run;
    const auto begin = Steady::now();
    progress_.at(0, "building");
    if (chosen.compared != nullptr && !built) build_pass(run);
    if (options_.preset.updates == 0) {
      if (chosen.compared == nullptr) return;
      check_own_settings(run);
      measured_.push_back(std::move(measured));
      return;
    }
    if (!options_.preset.timed && chosen.compared == nullptr && !of_memory(chosen)) return;
    std::optional<TrainingPass> training;
    if (chosen.training != nullptr) {
      training.emplace(run);
      training->train_seed();
    } else if (chosen.survey != nullptr) {
      survey_pass(run);
    }
    check_own_settings(run);
    if (chosen.compared == nullptr && !options_.typed_settings().empty()) ask(run);
    while (training && !refused() && training->wants_seed()) training->train_seed();
    if (chosen.compared != nullptr && run.candidates.front().ok()) {
      if (only_memory_) {
        priming_pass(run);
      } else {
        agreement_pass(run);
      }
      if (run.candidates.front().ok()) {
        counting_pass(run);
        memory_pass(run);
        if (options_.preset.timed || only_memory_) budget_pass(run);
        if (options_.preset.timed) {
          measured.time = std::make_unique<TimePass>(run);
          measured.time->first_slice(seconds / 2);
        }
      }
    }
    if (!measured.time) other_seconds_ += seconds_since(begin);
    progress_.at(1, "measured");
    measured_.push_back(std::move(measured));
  }

  void share_rest(Steady::time_point begin, double seconds) {
    double left = seconds + other_seconds_ - seconds_since(begin);
    std::vector<TimePass*> passes;
    for (const Measured& measured : measured_) {
      if (!measured.time) continue;
      left -= measured.time->seconds_to_rebuild(kSplitWarmUp + kSplitSteps);
      passes.push_back(measured.time.get());
    }
    share_time(passes, world_, world_.from_rank_0(left), [&](const TimePass& pass, double part) {
      for (const Measured& measured : measured_) {
        if (measured.time.get() == &pass) progress_.begin(measured.run->chosen.name, kFirstSlices, kAllTimed);
      }
      progress_.at(part, "time: more rounds where the interval is widest");
    });
  }

  const Lesson& lesson_;
  const std::vector<Chosen>& cases_;
  const Options& options_;
  const World& world_;
  torch::Device device_;
  const Machine& machine_;
  const bool only_memory_ = device_.is_cuda() && memory_only();
  Progress progress_;
  CountedGroups groups_;
  double other_seconds_ = 0;  // of surveys and trainings, which have no part in the lesson's time
  std::vector<Measured> measured_;
  std::vector<std::unique_ptr<CaseRun>> built_;  // ahead, in the place of their case
  bool built_ahead_ = false;
  std::set<std::string> unread_, read_;  // typed settings that nothing has read yet; all settings that were read
  size_t asked_ = 0;                     // parts that have read all they would
  bool unsure_ = false;                  // one of them stopped before
};

}  // namespace

MeasuredCases measure_cases(const Lesson& lesson, const std::vector<Chosen>& cases, const Options& options,
                            const World& world, torch::Device device, const Machine& machine) {
  LessonRun all(lesson, cases, options, world, device, machine);
  MeasuredCases measured;
  measured.to_the_end = all.measure();
  measured.results = all.results();
  measured.unread = all.unread();
  measured.left_out = all.left_out();
  return measured;
}

std::string refusal_of_settings(const std::set<std::string>& unread, const std::vector<Chosen>& cases,
                                const std::set<std::string>& read) {
  std::vector<std::string> parts;
  for (const Chosen& chosen : cases) {
    if (!chosen.sweep) parts.push_back("'" + chosen.name + "'");
  }
  return "setting " + joined({unread.begin(), unread.end()}) + ": nothing " +
         (parts.empty() ? "in the case that is swept" : "in " + joined(parts)) + " reads it" +
         (read.empty() ? "" : "; settings that are read: " + joined({read.begin(), read.end()}));
}

bool other_starts() { return std::getenv(kOtherStarts) != nullptr; }

}  // namespace tenfold
