#include "common/cli/lessons.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "common/cli/numbered_names.h"
#include "common/cli/paths.h"
#include "common/result/result.h"

namespace tenfold::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A number, or what it is a multiple of.
RankNumbers read_ranks(const Json& ranks) {
  if (ranks.is_object()) return {.unit = ranks.at("multiple_of").get<int>(), .as_many = true};
  return {.unit = ranks.get<int>()};
}

DescribedLesson read_description(const std::filesystem::path& file) {
  using Names = std::vector<std::string>;
  const auto damaged = [&](const std::string& what) {
    return UsageError(file.string() + ": " + one_line(what) + "; build again with: ./tenfold setup");
  };
  try {
    const Json json = Json::parse(read_text(file));
    DescribedLesson lesson;
    lesson.name = json.at("lesson").get<std::string>();
    lesson.title = json.at("title").get<std::string>();
    lesson.question = json.value("question", "");
    lesson.workload = json.value("workload", "");
    lesson.baseline = json.value("baseline", "");
    lesson.techniques = json.value("techniques", std::vector<std::string>());
    lesson.description = json.dump();
    lesson.core = json.at("core").get<bool>();
    const auto parts = [&](const char* kind) {
      std::vector<LessonPart> read;
      for (const Json& part : json.value(kind, Json::array())) {
        read.push_back({.name = part.at("name").get<std::string>(),
                        .ranks = read_ranks(part.at("ranks")),
                        .environment = part.value("environment", std::map<std::string, std::string>()),
                        .survey = kind == std::string("surveys"),
                        .variants = part.value("variants", Names())});
        if (const int unit = read.back().ranks.unit; unit < 1)
          throw damaged("'" + read.back().name + "': " + std::to_string(unit) + " ranks");
      }
      return read;
    };
    lesson.cases = parts("cases");
    lesson.trainings = parts("trainings");
    lesson.surveys = parts("surveys");
    if (lesson.name.size() < 4) throw damaged("lesson: '" + lesson.name + "' is no lesson name");
    return lesson;
  } catch (const Json::exception& error) {
    throw damaged(error.what());
  }
}

}  // namespace

std::vector<LessonPart> DescribedLesson::parts() const {
  std::vector<LessonPart> all = surveys;
  all.insert(all.end(), cases.begin(), cases.end());
  all.insert(all.end(), trainings.begin(), trainings.end());
  return all;
}

std::vector<DescribedLesson> find_lessons() {
  const std::string suffix = ".describe.json";
  std::vector<DescribedLesson> lessons;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(build_folder() / "lessons", none)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(suffix)) continue;
    const std::filesystem::path binary = entry.path().parent_path() / file.substr(0, file.size() - suffix.size());
    if (!std::filesystem::exists(binary)) continue;  // a lesson that was removed since
    DescribedLesson lesson = read_description(entry.path());
    lesson.binary = binary;
    lessons.push_back(std::move(lesson));
  }
  std::sort(lessons.begin(), lessons.end(),
            [](const DescribedLesson& a, const DescribedLesson& b) { return a.name < b.name; });
  return lessons;
}

std::vector<std::string> unbuilt_lessons() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "lessons", none)) {
    if (std::filesystem::exists(entry.path() / "lesson.cpp")) names.insert(entry.path().filename().string());
  }
  for (const DescribedLesson& lesson : find_lessons()) names.erase(lesson.name);
  return {names.begin(), names.end()};
}

const DescribedLesson& resolve_lesson(const std::vector<DescribedLesson>& lessons, const std::string& word) {
  if (lessons.empty())
    throw UsageError("no lesson is built in " + (build_folder() / "lessons").string() +
                     "; build with: ./tenfold setup");
  std::vector<std::string> names;
  for (const DescribedLesson& lesson : lessons) names.push_back(lesson.name);
  if (matching_names(names, word).empty()) {
    const std::vector<std::string> unbuilt = unbuilt_lessons();
    if (const auto found = matching_names(unbuilt, word); found.size() == 1)
      throw UsageError(found[0] + " is not built here; build and run it with: ./tenfold run " +
                       number_of_name(found[0]));
    names.insert(names.end(), unbuilt.begin(), unbuilt.end());  // one of them may be what was mistyped
  }
  const std::string meant = name_meant("lesson", names, word, "./tenfold list");
  return *std::ranges::find(lessons, meant, &DescribedLesson::name);
}

}  // namespace tenfold::cli
