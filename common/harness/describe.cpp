#include "common/harness/describe.h"

#include <nlohmann/json.hpp>

#include "common/harness/lesson_parts.h"
#include "common/harness/options.h"
#include "common/measure/messages.h"

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

/// With the settings that the part has at a size, on a device of that size, which need not be here.
Trial trial_of(const Part& part, Size size) {
  auto record = std::make_shared<TrialRecord>();
  record->declared = part.declared;
  record->given = Chosen{.part = part}.settings(size);
  Trial trial(record);
  trial.device = size == Size::cpu ? torch::Device(torch::kCPU) : torch::Device(torch::kCUDA, 0);
  trial.size = size;
  trial.workload = part.workload;
  return trial;
}

Json described_setting(const DeclaredSetting& setting) {
  return {{"name", setting.name},
          {"cpu", json_of(setting.value.cpu)},
          {"gpu8", json_of(setting.value.gpu8)},
          {"gpu80", json_of(setting.value.gpu80)},
          {"meaning", setting.meaning},
          {"choices", setting.choices}};
}

/// One number, or what it is a multiple of.
Json described_ranks(const RankNumbers& ranks) {
  return ranks.as_many ? Json{{"multiple_of", ranks.unit}} : Json(ranks.unit);
}

// What one kind of part has besides, and where the lesson's description lists the kind.

const char* add_own(Json& json, const Lesson& lesson, const Part& part, const Case& /*compared*/) {
  if (const auto& most_bytes = lesson.most_bytes ? lesson.most_bytes : part.workload.most_bytes) {
    for (const Size size : {Size::cpu, Size::gpu8, Size::gpu80})
      json["most_bytes"][to_string(size)] = most_bytes(trial_of(part, size));
  }
  return "cases";
}

const char* add_own(Json& json, const Lesson& /*lesson*/, const Part& /*part*/, const Training& training) {
  const Metric& metric = training.metric;
  json["metric"] = {{"name", metric.name},
                    {"unit", metric.unit},
                    {"better", to_string(metric.better)},
                    {"margin", metric.margin},
                    {"relative", metric.relative}};
  return "trainings";
}

const char* add_own(Json& /*json*/, const Lesson& /*lesson*/, const Part& /*part*/, const Survey& /*survey*/) {
  return "surveys";
}

}  // namespace

std::string describe(const Lesson& lesson, const std::string& name) {
  Json json = {{"lesson", name},
               {"title", lesson.title},
               {"question", lesson.question},
               {"workload", lesson.workload.name},
               {"version", lesson.version},
               {"core", lesson.core},
               {"baseline", lesson.baseline.name},
               {"techniques", Json::array()},
               {"cases", Json::array()},
               {"trainings", Json::array()},
               {"surveys", Json::array()},
               {"settings", Json::array()}};
  for (const Variant& technique : lesson.techniques) {
    json["techniques"].push_back(technique.name);
    if (technique.process) json["processes"][technique.name] = technique.process->stated();
  }
  for (const Part& part : parts_of(lesson)) {
    Json described = {{"name", part.name}, {"ranks", described_ranks(part.ranks())}, {"variants", part.variants}};
    described["settings"] = Json::object();
    for (const Assignment& assignment : part.settings)
      described["settings"][assignment.name] = json_of(assignment.value.cpu);
    if (!part.place.environment.empty()) described["environment"] = part.place.environment;
    const char* const kind =
        std::visit([&](const auto* body) { return add_own(described, lesson, part, *body); }, part.body);
    json[kind].push_back(std::move(described));
  }
  for (const SettingOfParts& setting : settings_of(lesson)) {
    Json described = described_setting(setting.declared);
    if (!setting.workload.empty()) described["workload"] = setting.workload;
    json["settings"].push_back(described);
  }
  if (lesson.headline)
    json["headline"] = {{"case", lesson.headline->case_name}, {"technique", lesson.headline->technique}};
  return json.dump(1) + "\n";
}

}  // namespace tenfold
