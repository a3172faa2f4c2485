#include "common/harness/lesson_check.h"

#include <algorithm>
#include <set>
#include <vector>

#include "common/base/text.h"
#include "common/harness/options.h"

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

const DeclaredSetting& declared_setting(const Lesson& lesson, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const DeclaredSetting& setting : lesson.settings) {
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

void check_assignments(const Lesson& lesson, const std::vector<Assignment>& settings, const std::string& where) {
  std::set<std::string> assigned;
  for (const Assignment& assignment : settings) {
    check_unique(assigned, assignment.name, "settings of " + where);
    const DeclaredSetting& setting = declared_setting(lesson, assignment.name, "lesson: " + where);
    if (setting.value.cpu.index() != assignment.value.cpu.index())
      throw UsageError("lesson: " + where + ": setting '" + assignment.name + "' is declared with another type");
    check_least(setting, assignment.value, "lesson: " + where);
  }
}

void check_case(const Lesson& lesson, const Case& compared, const std::set<std::string>& techniques) {
  std::set<std::string> stated;
  for (const Expectation& expectation : compared.expected) {
    const std::string where = "lesson: case '" + compared.name + "', technique '" + expectation.technique + "'";
    if (!techniques.contains(expectation.technique)) throw UsageError(where + ": there is no technique of this name");
    check_unique(stated, expectation.technique, "expectations of one case");
    check_expect(expectation.expect, where);
    if (expectation.on_cuda) check_expect(*expectation.on_cuda, where + ", on CUDA");
  }
  const std::string where = "case '" + compared.name + "'";
  check_assignments(lesson, compared.settings, where);
  if (compared.budget) {
    const DeclaredSetting& setting =
        declared_setting(lesson, compared.budget->setting, "lesson: " + where + ", budget");
    if (!std::holds_alternative<int64_t>(setting.value.cpu))
      throw UsageError("lesson: " + where + ": setting '" + setting.name + "' of the budget is no whole number");
    if (ranks_of(compared) > 1) throw UsageError("lesson: " + where + ": a budget is for one rank");
  }
  if (const std::string wrong = wrong_shape(compared.mesh); !wrong.empty())
    throw UsageError("lesson: " + where + ": its mesh is wrong: " + wrong);
  if (workload_of(lesson, compared).empty()) throw UsageError("lesson: " + where + ": has no workload");
}

void check_training(const Lesson& lesson, const Training& training) {
  const std::string where = "training '" + training.name + "'";
  check_assignments(lesson, training.settings, where);
  if (workload_of(lesson, training).empty()) throw UsageError("lesson: " + where + ": has no workload");
  if (training.metric.name.empty() || !(training.metric.margin > 0))
    throw UsageError("lesson: " + where + ": its metric needs a name, and a margin above 0");
  if (training.runs.size() < 2) throw UsageError("lesson: " + where + ": compares nothing; it needs two runs or more");
  std::set<std::string> runs;
  for (const Run& run : training.runs) check_unique(runs, run.name, "runs of " + where);
  const Run& baseline = training.runs.front();
  for (const ExpectTrained& expect : {baseline.expected, baseline.on_cuda.value_or(ExpectTrained())}) {
    if (expect.quality != expect::Quality::any || expect.speed != expect::Speed::any)
      throw UsageError("lesson: " + where + ": states something of '" + baseline.name + "', which is its baseline");
  }
}

}  // namespace

std::string workload_of(const Lesson& lesson, const Case& compared) {
  return compared.workload.empty() ? lesson.workload : compared.workload;
}

std::string workload_of(const Lesson& lesson, const Training& training) {
  return training.workload.empty() ? lesson.workload : training.workload;
}

int ranks_of(const Case& compared) {
  int ranks = 1;
  for (const auto& [name, size] : compared.mesh) ranks *= size;
  return ranks;
}

bool compares(const Case& compared, const std::string& technique) {
  return compared.expected.empty() || std::any_of(compared.expected.begin(), compared.expected.end(),
                                                  [&](const auto& e) { return e.technique == technique; });
}

std::vector<std::string> variants_of(const Lesson& lesson, const Case& compared) {
  std::vector<std::string> names = {lesson.baseline.name};
  for (const Variant& technique : lesson.techniques) {
    if (compares(compared, technique.name)) names.push_back(technique.name);
  }
  return names;
}

std::vector<std::string> variants_of(const Training& training) {
  std::vector<std::string> names;
  for (const Run& run : training.runs) names.push_back(run.name);
  return names;
}

std::vector<std::string> variants_of(const Survey& survey) {
  std::vector<std::string> names;
  for (const Look& look : survey.looks) names.push_back(look.name);
  return names;
}

std::optional<Expected> expected_of(const Case& compared, const std::string& technique, torch::Device device) {
  for (const Expectation& expectation : compared.expected) {
    if (expectation.technique != technique) continue;
    const Expect expect = device.is_cuda() ? expectation.on_cuda.value_or(expectation.expect) : expectation.expect;
    return Expected{to_string(expect.kind), to_string(expect.speed), to_string(expect.memory)};
  }
  return std::nullopt;
}

std::optional<Expected> expected_of(const Training& training, const Run& run, torch::Device device) {
  if (&run == &training.runs.front()) return std::nullopt;
  const ExpectTrained expect = device.is_cuda() ? run.on_cuda.value_or(run.expected) : run.expected;
  return Expected{.speed = to_string(expect.speed), .quality = to_string(expect.quality)};
}

void check_lesson(const Lesson& lesson) {
  std::set<std::string> variants, techniques, cases, settings;
  for (const DeclaredSetting& setting : lesson.settings) {
    check_unique(settings, setting.name, "settings");
    check_least(setting, setting.value, "lesson: its default");
    for (const DeclaredSetting& other : setting.in_others) {
      check_least(other, other.value, "lesson: its default");
      if (other.value.cpu.index() != setting.value.cpu.index())
        throw UsageError("lesson: setting '" + setting.name + "' of " + other.workload + " and of " + setting.workload +
                         " have different types");
    }
  }
  if (lesson.cases.empty() == static_cast<bool>(lesson.baseline.build))
    throw UsageError(lesson.cases.empty() ? "lesson: has a baseline and no case" : "lesson: has cases and no baseline");
  check_unique(variants, lesson.baseline.name, "variants");
  for (const Variant& technique : lesson.techniques) {
    check_unique(variants, technique.name, "variants");
    techniques.insert(technique.name);
  }
  for (const Case& compared : lesson.cases) {
    check_unique(cases, compared.name, "cases");
    check_case(lesson, compared, techniques);
  }
  for (const Training& training : lesson.trainings) {
    check_unique(cases, training.name, "cases");
    check_training(lesson, training);
  }
  for (const Survey& survey : lesson.surveys) {
    check_unique(cases, survey.name, "cases");
    check_assignments(lesson, survey.settings, "survey '" + survey.name + "'");
    std::set<std::string> looks;
    for (const Look& look : survey.looks) check_unique(looks, look.name, "looks of survey '" + survey.name + "'");
  }
  for (const std::string& name : techniques) {
    if (std::none_of(lesson.cases.begin(), lesson.cases.end(),
                     [&](const Case& compared) { return compares(compared, name); })) {
      throw UsageError("lesson: no case compares the technique '" + name + "'");
    }
  }
  if (!lesson.headline) return;
  const auto& [case_name, technique] = *lesson.headline;
  if (std::none_of(lesson.cases.begin(), lesson.cases.end(),
                   [&](const Case& compared) { return compared.name == case_name && compares(compared, technique); }) ||
      !techniques.contains(technique)) {
    throw UsageError("lesson: the headline's case '" + case_name + "' does not compare '" + technique + "'");
  }
}

}  // namespace tenfold
