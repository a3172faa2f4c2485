#include "common/harness/measure_cases.h"

#include <algorithm>
#include <chrono>
#include <cmath>
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
#include "common/measure/memory.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

Size default_size(torch::Device device) {
  if (device.is_cpu()) return Size::cpu;
  return device_memory_bytes(device) > 60LL << 30 ? Size::gpu80 : Size::gpu8;
}

/// A setting that was given and that no variant of the case reads would silently measure the default. A baseline that
/// cannot run here stops before it has read all of its own: then nothing is known.
void check_settings(const CaseRun& run) {
  if (!run.candidates.empty() && run.candidates.front().result.status == "skipped") return;
  std::set<std::string> known;
  for (const Candidate& candidate : run.candidates) {
    for (const auto& [name, value] : candidate.record->read) known.insert(name);
  }
  for (const auto& [name, value] : run.chosen.settings(run.size)) {
    if (known.contains(name)) continue;
    throw UsageError("setting " + name + ": nothing in case '" + run.chosen.name + "' reads it" +
                     (known.empty() ? "" : "; it reads: " + joined({known.begin(), known.end()})));
  }
}

using Steady = std::chrono::steady_clock;

/// A setting's value in this case, as it was given or declared.
SettingValue own_value(const CaseRun& run, const std::string& name) {
  const auto given = run.chosen.settings(run.size);
  if (const auto found = given.find(name); found != given.end()) return found->second;
  for (const DeclaredSetting& setting : run.lesson.settings) {
    if (setting.name == name) return setting.value.at(run.size);
  }
  throw std::logic_error("setting " + name + " is not declared");
}

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
  result.device = run.device.is_cuda() ? "cuda" : "cpu";
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
  if (result.budget) result.settings[result.budget->setting] = own_value(run, result.budget->setting);
  if (result.kind != "survey") judge(result, run.machine.cores);
  return result;
}

std::unique_ptr<CaseRun> start_case(const Lesson& lesson, const Chosen& chosen, const Options& options,
                                    const World& world, torch::Device device, const Machine& machine,
                                    Progress& progress, CountedGroups& groups) {
  const MeshShape all = {{"dp", world.ranks.world_size}};
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
  const auto wanted = [&](const std::string& name) {
    return options.only.empty() || std::find(options.only.begin(), options.only.end(), name) != options.only.end();
  };
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
    for (const Run& one : chosen.training->runs) {
      if (&one != &chosen.training->runs.front() && !wanted(one.name)) continue;
      add({.name = one.name, .run = &one});
      expect(expected_of(*chosen.training, one, device));
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
  LessonRun(const Lesson& lesson, const Options& options, const World& world, torch::Device device,
            const Machine& machine)
      : lesson_(lesson),
        options_(options),
        world_(world),
        device_(device),
        machine_(machine),
        progress_(world.ranks.rank == 0),
        groups_(world) {}

  /// False when it was asked to stop before the end.
  bool measure(const std::vector<Chosen>& cases) {
    const Preset& preset = options_.preset;
    const auto compared = static_cast<double>(
        std::count_if(cases.begin(), cases.end(), [&](const Chosen& one) { return one.compared != nullptr; }));
    double seconds = preset.case_seconds * std::max(1.0, compared);
    if (preset.lesson_seconds > 0) seconds = std::min(seconds, preset.lesson_seconds);
    const auto begin = Steady::now();
    try {
      for (size_t i = 0; i < cases.size(); ++i) {
        const double from = kFirstSlices * static_cast<double>(i) / static_cast<double>(cases.size());
        progress_.begin(cases[i].name, from, from + kFirstSlices / static_cast<double>(cases.size()));
        first_passes(cases[i], kForTiming * seconds / std::max(1.0, compared));
      }
      share_rest(begin, seconds);
      for (const Measured& one : measured_) {
        if (!one.time) continue;
        progress_.begin(one.run->chosen.name, kAllTimed, 1);
        split_pass(*one.run);
      }
    } catch (const Interrupted&) {
      return false;
    }
    return true;
  }

  std::vector<CaseResult> results() const {
    std::vector<CaseResult> results;
    for (const Measured& one : measured_) results.push_back(collect(*one.run));
    return results;
  }

 private:
  // Parts of a lesson's time: for timing; and of the progress that is shown: after the first slices, after all timing.
  static constexpr double kForTiming = 0.6, kFirstSlices = 0.65, kAllTimed = 0.95;

  void first_passes(const Chosen& one, double seconds) {
    Measured measured{start_case(lesson_, one, options_, world_, device_, machine_, progress_, groups_)};
    CaseRun& run = *measured.run;
    const auto begin = Steady::now();
    progress_.at(0, "building");
    if (options_.preset.updates == 0) {
      if (one.compared != nullptr) {
        build_pass(run);
        check_settings(run);
        measured_.push_back(std::move(measured));
      }
      return;
    }
    std::optional<TrainingPass> training;
    if (one.training != nullptr) {
      training.emplace(run);
      training->train_seed();
    } else if (one.survey != nullptr) {
      survey_pass(run);
    } else {
      build_pass(run);
    }
    check_settings(run);
    while (training && training->wants_seed()) training->train_seed();
    if (one.compared != nullptr && run.candidates.front().ok()) {
      agreement_pass(run);
      if (run.candidates.front().ok()) {
        counting_pass(run);
        memory_pass(run);
        budget_pass(run);
        measured.time = std::make_unique<TimePass>(run);
        measured.time->first_slice(seconds / 2);
      }
    }
    if (!measured.time) other_seconds_ += seconds_since(begin);
    progress_.at(1, "measured");
    measured_.push_back(std::move(measured));
  }

  void share_rest(Steady::time_point begin, double seconds) {
    double left = seconds + other_seconds_ - seconds_since(begin);
    std::vector<TimePass*> passes;
    for (const Measured& one : measured_) {
      if (!one.time) continue;
      left -= one.time->seconds_to_rebuild(kSplitWarmUp + kSplitSteps);
      passes.push_back(one.time.get());
    }
    share_time(passes, world_, world_.from_rank_0(left), [&](const TimePass& pass, double part) {
      for (const Measured& one : measured_) {
        if (one.time.get() == &pass) progress_.begin(one.run->chosen.name, kFirstSlices, kAllTimed);
      }
      progress_.at(part, "time: more rounds where the interval is widest");
    });
  }

  const Lesson& lesson_;
  const Options& options_;
  const World& world_;
  torch::Device device_;
  const Machine& machine_;
  Progress progress_;
  CountedGroups groups_;
  double other_seconds_ = 0;  // of surveys and trainings, which have no part in the lesson's time
  std::vector<Measured> measured_;
};

}  // namespace

bool measure_cases(const Lesson& lesson, const std::vector<Chosen>& cases, const Options& options, const World& world,
                   torch::Device device, const Machine& machine, std::vector<CaseResult>& results) {
  LessonRun all(lesson, options, world, device, machine);
  const bool to_the_end = all.measure(cases);
  results = all.results();
  return to_the_end;
}

}  // namespace tenfold
