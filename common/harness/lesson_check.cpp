#include "common/harness/lesson_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/base/flags.h"
#include "common/base/text.h"
#include "common/harness/lesson_parts.h"

namespace tenfold {
namespace {

void check_expect(const Expect& expect, const std::string& where) {
  if (expect.kind == expect::Kind::mistake && expect.speed != expect::SLOWER && expect.memory != expect::LARGER) {
    throw UsageError(where + ": a mistake computes the same and is worse; state SLOWER or LARGER, or make it a TRAP");
  }
}

void check_unique(std::set<std::string>& seen, const std::string& name, const std::string& kind) {
  if (!seen.insert(name).second) throw UsageError("lesson: two " + kind + " are called '" + name + "'");
}

const DeclaredSetting& declared_setting(const Part& part, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const DeclaredSetting& setting : part.declared) {
    if (setting.name == name) return setting;
    names.push_back(setting.name);
  }
  throw UsageError(where + ": setting '" + name + "' is not declared; the lesson declares " +
                   (names.empty() ? "none" : joined(names)));
}

void check_least(const DeclaredSetting& setting, const PerSize<SettingValue>& values, const std::string& where) {
  for (const SettingValue& value : {values.cpu, values.gpu8, values.gpu80}) {
    if (const auto* number = std::get_if<int64_t>(&value); number && *number < setting.least)
      throw UsageError(where + ": setting '" + setting.name + "' is " + std::to_string(*number) +
                       "; the least that it is declared with is " + std::to_string(setting.least));
  }
}

void check_assignments(const Part& part, const std::string& where) {
  std::set<std::string> assigned;
  for (const Assignment& assignment : part.settings) {
    check_unique(assigned, assignment.name, "settings of " + where);
    const DeclaredSetting& setting = declared_setting(part, assignment.name, "lesson: " + where);
    if (setting.value.cpu.index() != assignment.value.cpu.index())
      throw UsageError("lesson: " + where + ": setting '" + assignment.name + "' is declared with another type");
    check_least(setting, assignment.value, "lesson: " + where);
  }
}

/// That what is judged by a training is trained there, from the same baseline and on the ranks that it is timed on.
void check_judged(const Lesson& lesson, const Variant& technique) {
  const std::string judge = technique.agreement.value_or(lesson.agreement).training;
  if (judge.empty()) return;
  const std::string at = "lesson: technique '" + technique.name + "' is judged by the training '" + judge + "', ";
  const auto training = std::ranges::find(lesson.trainings, judge, &Training::name);
  if (training == lesson.trainings.end() || !compares(*training, technique.name))
    throw UsageError(at + "and there is no such training with a run of this name after its baseline");
  if (training->runs.front().name != lesson.baseline.name)
    throw UsageError(at + "whose baseline is '" + training->runs.front().name + "' and not the lesson's");
  for (const Case& compared : lesson.cases) {
    if (compares(compared, technique.name) && compared.place.mesh != training->place.mesh)
      throw UsageError(at + "which does not run on the ranks of case '" + compared.name + "'");
  }
}

// In another process neither is the baseline's work counted nor an update taken back, and another program may count no
// memory.
void check_process(const Lesson& lesson, const Variant& technique) {
  if (!technique.process) {
    if (!technique.build) throw UsageError("lesson: technique '" + technique.name + "' has nothing that builds it");
    return;
  }
  const std::string at = "lesson: technique '" + technique.name + "', which runs in another process, ";
  if (technique.process->command.empty() != static_cast<bool>(technique.build))
    throw UsageError(at + (technique.build ? "has a command and a build: a command trains by itself"
                                           : "has neither a build nor a command"));
  for (const Case& compared : lesson.cases) {
    if (!compares(compared, technique.name)) continue;
    const std::string of = at + "is compared in '" + compared.name + "', which ";
    if (rank_numbers(compared.place.mesh) != RankNumbers{})
      throw UsageError(of + "has several ranks; each would need a process more: use one rank");
    if (compared.place.devices > 1)
      throw UsageError(of + "has " + std::to_string(compared.place.devices) +
                       " GPUs, of which another process gets one: use one GPU");
    if (compared.budget && !technique.process->command.empty())
      throw UsageError(of + "has a budget, and the memory of another program is not counted");
  }
}

// What only parts of one kind have.

void check_body(const Lesson& lesson, const Part& part, const Case& compared) {
  std::set<std::string> techniques, stated;
  for (const Variant& technique : lesson.techniques) techniques.insert(technique.name);
  const std::string at = "lesson: case '" + part.name + "'";
  for (const Expectation& expectation : compared.expected) {
    const std::string where = at + ", technique '" + expectation.technique + "'";
    if (!techniques.contains(expectation.technique)) throw UsageError(where + ": there is no technique of this name");
    check_unique(stated, expectation.technique, "expectations of one case");
    check_expect(expectation.expect, where);
    if (expectation.on_cuda) check_expect(expectation.on_cuda->claim, where + ", on CUDA");
  }
  if (part.workload.name.empty()) throw UsageError(at + ": has no workload");
  if (!compared.judged_peak.empty() && std::ranges::find(kPeakKinds, compared.judged_peak) == kPeakKinds.end())
    throw UsageError(at + ": there is no peak of kind '" + compared.judged_peak + "', only " + joined(kPeakKinds));
  if (!compared.budget) return;
  const DeclaredSetting& setting = declared_setting(part, compared.budget->setting, at + ", budget");
  if (!std::holds_alternative<int64_t>(setting.value.cpu))
    throw UsageError(at + ": setting '" + setting.name + "' of the budget is no whole number");
  if (part.ranks() != RankNumbers{}) throw UsageError(at + ": a budget is for one rank");
}

void check_body(const Lesson& lesson, const Part& part, const Training& training) {
  const std::string at = "lesson: training '" + part.name + "'";
  if (part.workload.name.empty()) throw UsageError(at + ": has no workload");
  if (training.metric.name.empty() || !(training.metric.margin > 0))
    throw UsageError(at + ": its metric needs a name, and a margin above 0");
  if (training.runs.size() < 2) throw UsageError(at + ": compares nothing; it needs two runs or more");
  const Run& baseline = training.runs.front();
  if (baseline.expected.quality != expect::Quality::any || baseline.expected.speed != expect::Speed::any ||
      baseline.expected.memory != expect::Memory::any || baseline.on_cuda)
    throw UsageError(at + ": states something of '" + baseline.name + "', which is its baseline");
}

void check_body(const Lesson& lesson, const Part& part, const Survey& survey) {}

void check_part(const Lesson& lesson, const Part& part) {
  const std::string where = part.kind() + " '" + part.name + "'";
  check_assignments(part, where);
  if (const std::string wrong = wrong_shape(part.place.mesh); !wrong.empty())
    throw UsageError("lesson: " + where + ": its mesh is wrong: " + wrong);
  if (part.place.devices < 1) throw UsageError("lesson: " + where + ": needs one device or more");
  if (part.place.devices > 1 && !part.place.mesh.empty())
    throw UsageError("lesson: " + where + ": several devices are one process's; of ranks each has one");
  std::set<std::string> variants;
  for (const std::string& variant : part.variants) check_unique(variants, variant, "variants of " + where);
  std::visit([&](const auto* body) { check_body(lesson, part, *body); }, part.body);
}

}  // namespace

void check_lesson(const Lesson& lesson) {
  std::set<std::string> variants, techniques, parts, settings;
  for (const DeclaredSetting& setting : lesson.settings) check_unique(settings, setting.name, "settings");
  std::map<std::string, size_t> types;
  for (const auto& [setting, workload] : settings_of(lesson)) {
    check_least(setting, setting.value, "lesson: its default");
    if (types.try_emplace(setting.name, setting.value.cpu.index()).first->second != setting.value.cpu.index())
      throw UsageError("lesson: setting '" + setting.name + "' of " + workload +
                       " has another type than that of another workload");
  }
  if (lesson.cases.empty() == static_cast<bool>(lesson.baseline.build))
    throw UsageError(lesson.cases.empty() ? "lesson: has a baseline and no case" : "lesson: has cases and no baseline");
  check_unique(variants, lesson.baseline.name, "variants");
  for (const Variant& technique : lesson.techniques) {
    check_unique(variants, technique.name, "variants");
    techniques.insert(technique.name);
    check_process(lesson, technique);
    check_judged(lesson, technique);
  }
  if (lesson.baseline.process)
    throw UsageError("lesson: the baseline '" + lesson.baseline.name +
                     "' runs in another process; it runs in this one, in the environment of its case's place");
  std::map<std::string, std::vector<DeclaredSetting>> workloads;
  for (const Part& part : parts_of(lesson)) {
    check_unique(parts, part.name, "parts");
    check_part(lesson, part);
    const auto& [workload, declared] = *workloads.try_emplace(part.workload.name, part.workload.settings).first;
    if (declared != part.workload.settings)
      throw UsageError(
          "lesson: " + part.kind() + " '" + part.name + "' has a workload '" + workload +
          "' with other settings than the part before it; a workload is known by its name: give it another");
  }
  for (const std::string& name : techniques) {
    if (std::none_of(lesson.cases.begin(), lesson.cases.end(),
                     [&](const Case& compared) { return compares(compared, name); })) {
      throw UsageError("lesson: no case compares the technique '" + name + "'");
    }
  }
  if (!lesson.headline) return;
  const auto& [case_name, technique] = *lesson.headline;
  const auto is_in = [&](const auto& part) { return part.name == case_name && compares(part, technique); };
  const bool in_case = techniques.contains(technique) && std::ranges::any_of(lesson.cases, is_in);
  const bool in_training = std::ranges::any_of(lesson.trainings, is_in);
  if (!in_case && !in_training) {
    throw UsageError("lesson: the headline's case '" + case_name + "' does not compare '" + technique + "'");
  }
}

}  // namespace tenfold
