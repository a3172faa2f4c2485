#include "common/harness/lesson_parts.h"

#include <algorithm>
#include <cstdlib>

namespace tenfold {
namespace {

/// What all kinds have in common.
template <class Body>
Part part_of(const Lesson& lesson, const Body& body, const std::vector<std::string>& variants) {
  const Workload& workload = body.workload.name.empty() ? lesson.workload : body.workload;
  return {.name = body.name,
          .workload = workload,
          .declared = with_own(workload.settings, lesson.settings),
          .settings = body.settings,
          .place = body.place,
          .variants = variants,
          .body = &body};
}

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& named) {
  std::vector<std::string> names;
  for (const Named& each : named) names.push_back(each.name);
  return names;
}

}  // namespace

bool Part::compares() const { return !std::holds_alternative<const Survey*>(body); }

std::string Part::kind() const {
  static const std::vector<std::string> names = {"survey", "case", "training"};
  return names[body.index()];
}

std::vector<Part> parts_of(const Lesson& lesson) {
  std::vector<Part> parts;
  for (const Survey& survey : lesson.surveys) parts.push_back(part_of(lesson, survey, names_of(survey.looks)));
  for (const Case& compared : lesson.cases) {
    std::vector<std::string> variants = {lesson.baseline.name};
    for (const Variant& technique : lesson.techniques) {
      if (compares(compared, technique.name)) variants.push_back(technique.name);
    }
    parts.push_back(part_of(lesson, compared, variants));
  }
  for (const Training& training : lesson.trainings) parts.push_back(part_of(lesson, training, names_of(training.runs)));
  return parts;
}

int most_devices(const Lesson& lesson) {
  int most = 1;
  for (const Part& part : parts_of(lesson)) most = std::max(most, part.place.devices);
  return most;
}

Part part_on(const Lesson& lesson, const std::string& workload) {
  const std::vector<Part> parts = parts_of(lesson);
  const auto has_it = [&](const Part& part) { return part.workload.name == workload; };
  const auto part = std::ranges::find_if(parts, has_it);
  return {.workload = part == parts.end() ? Workload{} : part->workload,
          .declared = part == parts.end() ? lesson.settings : part->declared};
}

std::vector<SettingOfParts> settings_of(const Lesson& lesson) {
  std::vector<const Workload*> workloads = {&lesson.workload};
  const std::vector<Part> parts = parts_of(lesson);
  for (const Part& part : parts) {
    if (std::ranges::find(workloads, part.workload.name, &Workload::name) == workloads.end())
      workloads.push_back(&part.workload);
  }
  std::vector<SettingOfParts> settings;
  for (const Workload* const workload : workloads) {
    for (const DeclaredSetting& setting : with_own(workload->settings, lesson.settings)) {
      const auto same_name = [&](const SettingOfParts& known) { return known.declared.name == setting.name; };
      const auto known = std::ranges::find_if(settings.rbegin(), settings.rend(), same_name);
      const bool own =
          std::ranges::find(lesson.settings, setting.name, &DeclaredSetting::name) != lesson.settings.end();
      if (known == settings.rend()) {
        settings.push_back({setting, own ? "" : workload->name});
      } else if (!own && known->declared != setting) {
        settings.insert(known.base(), {setting, workload->name});
      }
    }
  }
  // A name that only one workload has says whose it is by itself.
  for (auto& setting : settings) {
    if (std::ranges::count(settings, setting.declared.name, [](const auto& s) { return s.declared.name; }) == 1)
      setting.workload = "";
  }
  return settings;
}

bool compares(const Case& compared, const std::string& technique) {
  return compared.expected.empty() ||
         std::ranges::find(compared.expected, technique, &Expectation::technique) != compared.expected.end();
}

bool compares(const Training& training, const std::string& technique) {
  return std::ranges::any_of(training.runs,
                             [&](const Run& run) { return run.name == technique && &run != &training.runs.front(); });
}

std::optional<Expected> expected_of(const Case& compared, const std::string& technique, torch::Device device) {
  const auto stated = std::ranges::find(compared.expected, technique, &Expectation::technique);
  if (stated == compared.expected.end()) return std::nullopt;
  const Expect expect = device.is_cuda() && stated->on_cuda ? stated->on_cuda->claim : stated->expect;
  return Expected{to_string(expect.kind), to_string(expect.speed), to_string(expect.memory)};
}

std::optional<Expected> expected_of(const Training& training, const Run& run, torch::Device device) {
  if (&run == &training.runs.front()) return std::nullopt;
  const ExpectTrained expect = device.is_cuda() && run.on_cuda ? run.on_cuda->claim : run.expected;
  return Expected{
      .speed = to_string(expect.speed), .memory = to_string(expect.memory), .quality = to_string(expect.quality)};
}

std::vector<std::string> missing_here(const Place& place) {
  std::vector<std::string> names;
  for (const auto& [name, value] : place.environment) {
    const char* const own = std::getenv(name.c_str());
    if (own == nullptr || own != value) names.push_back(name);
  }
  return names;
}

}  // namespace tenfold
