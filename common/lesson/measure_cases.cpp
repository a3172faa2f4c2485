#include <tenfold/measure_cases.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>

#include <tenfold/judge.h>
#include <tenfold/lesson_check.h>
#include <tenfold/memory.h>
#include <tenfold/passes.h>
#include <tenfold/time_pass.h>

namespace tenfold {
namespace {

Size default_size(torch::Device device) {
  if (device.is_cpu()) return Size::cpu;
  return device_memory_bytes(device) > 60LL << 30 ? Size::gpu80 : Size::gpu8;
}

// A misspelt setting would silently measure the default.
void check_settings(const CaseRun& run) {
  std::set<std::string> known;
  for (const Candidate& candidate : run.candidates) {
    for (const auto& [name, value] : candidate.record->read) known.insert(name);
  }
  std::string all;
  for (const auto& name : known) all += (all.empty() ? "" : ", ") + name;
  for (const auto& [name, value] : run.description.settings) {
    if (!known.contains(name)) {
      throw UsageError("setting " + name + ": nothing in this lesson reads it" + (all.empty() ? "" : "; it reads: " + all));
    }
  }
}

using Steady = std::chrono::steady_clock;
double seconds_since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

/// Whole numbers stay whole in the file.
SettingValue setting_value(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

CaseResult collect(const CaseRun& run) {
  CaseResult result;
  result.name = run.description.name;
  result.workload = workload_of(run.lesson, run.description);
  result.kind = is_survey(run.lesson, run.description) ? "survey" : "comparison";
  result.size = to_string(run.size);
  result.device = run.device.is_cuda() ? "cuda" : "cpu";
  result.dtype = "float32";
  result.flags = {{"tf32_matmul", at::globalContext().allowTF32CuBLAS()}, {"tf32_cudnn", at::globalContext().allowTF32CuDNN()}};
  result.ranks = run.world.ranks.world_size;
  result.backend = run.world.backend;
  result.threads = run.options.threads;
  result.preset = run.options.preset.name;
  result.seed = static_cast<int64_t>(run.options.seed);
  result.clock = run.clock;
  if (run.options.sweep) {
    const std::string& setting = run.options.sweep->setting;
    result.sweep = SweepPoint{setting, setting_value(run.description.settings.at(setting))};
  }
  for (const Candidate& candidate : run.candidates) {
    for (const auto& [name, value] : candidate.record->read) result.settings[name] = setting_value(value);
    VariantResult variant = candidate.result;
    variant.notes = candidate.record->notes;
    if (const auto sent = variant.notes.find("bytes sent"); sent != variant.notes.end()) {
      variant.sent_bytes["collectives"] = static_cast<int64_t>(sent->second.value);
      variant.notes.erase(sent);
    }
    variant.environment["malloc"] = "fixed thresholds: mmap 32 MiB, trim 2000 MiB, top pad 64 MiB";
    result.variants.push_back(std::move(variant));
    if (candidate.agreement) {
      Verdict verdict;
      verdict.technique = candidate.variant->name;
      verdict.agreement = candidate.agreement;
      result.verdicts.push_back(verdict);
    }
  }
  if (result.kind == "comparison") judge(result);
  return result;
}

std::unique_ptr<CaseRun> start_case(const Lesson& lesson, const Case& one, const Options& options, const World& world, torch::Device device,
                                    const Machine& machine, double seconds, Progress& progress) {
  auto run = std::make_unique<CaseRun>(CaseRun{lesson,
                                               one,
                                               options,
                                               world,
                                               device,
                                               machine,
                                               options.size.value_or(default_size(device)),
                                               GlobalState::capture(device),
                                               progress,
                                               {},
                                               seconds});
  const auto add = [&](const Variant& variant) {
    Candidate candidate{&variant, {}, std::make_shared<TrialRecord>(), std::nullopt};
    candidate.record->settings = one.settings;
    candidate.result.name = variant.name;
    candidate.result.expected = expected_of(one, variant.name, device);
    run->candidates.push_back(std::move(candidate));
  };
  add(lesson.baseline);
  for (const Variant& technique : lesson.techniques) {
    const bool chosen = options.only.empty() || std::find(options.only.begin(), options.only.end(), technique.name) != options.only.end();
    if (chosen && compares(one, technique.name)) add(technique);
  }
  return run;
}

/// A case on its way through the lesson.
struct Measured {
  std::unique_ptr<CaseRun> run;
  std::unique_ptr<TimePass> time = nullptr;  ///< none for a survey
};

class LessonRun {
 public:
  LessonRun(const Lesson& lesson, const Options& options, const World& world, torch::Device device, const Machine& machine)
      : lesson_(lesson), options_(options), world_(world), device_(device), machine_(machine), progress_(world.ranks.rank == 0) {}

  /// False when it was asked to stop before the end.
  bool measure(const std::vector<Case>& cases) {
    const Preset& preset = options_.preset;
    const auto compared =
        static_cast<double>(std::count_if(cases.begin(), cases.end(), [&](const Case& c) { return !is_survey(lesson_, c); }));
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
        progress_.begin(one.run->description.name, kAllTimed, 1);
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

  void first_passes(const Case& one, double seconds) {
    Measured measured{start_case(lesson_, one, options_, world_, device_, machine_, seconds, progress_)};
    CaseRun& run = *measured.run;
    const auto begin = Steady::now();
    progress_.at(0, "building");
    build_pass(run);
    check_settings(run);
    // A foundation case's variants do their work while they are built and only note numbers.
    if (!is_survey(lesson_, one) && run.candidates.front().ok()) {
      agreement_pass(run);
      if (run.candidates.front().ok()) {
        counting_pass(run);
        memory_pass(run);
        measured.time = std::make_unique<TimePass>(run);
        measured.time->first_slice(seconds / 2);
      }
    }
    if (!measured.time) surveyed_seconds_ += seconds_since(begin);
    progress_.at(1, "measured");
    measured_.push_back(std::move(measured));
  }

  void share_rest(Steady::time_point begin, double seconds) {
    double left = seconds + surveyed_seconds_ - seconds_since(begin);
    std::vector<TimePass*> passes;
    for (const Measured& one : measured_) {
      if (!one.time) continue;
      left -= one.time->seconds_to_rebuild(kSplitWarmUp + kSplitSteps);
      passes.push_back(one.time.get());
    }
    share_time(passes, world_, world_.from_rank_0(left), [&](const TimePass& pass, double part) {
      for (const Measured& one : measured_) {
        if (one.time.get() == &pass) progress_.begin(one.run->description.name, kFirstSlices, kAllTimed);
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
  double surveyed_seconds_ = 0;  // in cases that compare nothing, and so have no part in the lesson's time
  std::vector<Measured> measured_;
};

}  // namespace

bool measure_cases(const Lesson& lesson, const std::vector<Case>& cases, const Options& options, const World& world, torch::Device device,
                   const Machine& machine, std::vector<CaseResult>& results) {
  LessonRun all(lesson, options, world, device, machine);
  const bool to_the_end = all.measure(cases);
  results = all.results();
  return to_the_end;
}

}  // namespace tenfold
