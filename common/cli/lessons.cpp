#include "lessons.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include <tenfold/humanize.h>
#include <tenfold/result.h>

#include "paths.h"

namespace tenfold::cli {
namespace {

Lesson read_description(const std::filesystem::path& file) {
  using Json = nlohmann::json;
  const auto damaged = [&](const std::string& what) {
    return UsageError(file.string() + ": " + one_line(what) + "; build again with: ./tenfold setup");
  };
  try {
    const Json json = Json::parse(read_text(file));
    Lesson lesson;
    lesson.name = json.at("lesson").get<std::string>();
    lesson.title = json.at("title").get<std::string>();
    lesson.question = json.value("question", "");
    lesson.workload = json.value("workload", "");
    lesson.foundation = json.value("foundation", false);
    lesson.ranks = json.value("ranks", 1);
    lesson.baseline = json.value("baseline", "");
    lesson.techniques = json.value("techniques", std::vector<std::string>());
    lesson.settings = json.value("settings", std::vector<std::string>());
    for (const Json& c : json.value("cases", Json::array())) lesson.cases.push_back(c.at("name").get<std::string>());
    if (lesson.name.size() < 4) throw damaged("lesson: '" + lesson.name + "' is no lesson name");
    return lesson;
  } catch (const Json::exception& error) {
    throw damaged(error.what());
  }
}

/// The names in lessons/core_path.txt; nothing where there is no such file.
std::optional<std::set<std::string>> core_path() {
  const std::filesystem::path file = source_folder() / "lessons" / "core_path.txt";
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::set<std::string> names;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with('#')) names.insert(line);
  }
  return names;
}

}  // namespace

std::vector<Lesson> find_lessons() {
  const std::string suffix = ".describe.json";
  const auto core = core_path();
  std::vector<Lesson> lessons;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(build_folder() / "lessons", none)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(suffix)) continue;
    const std::filesystem::path binary = entry.path().parent_path() / file.substr(0, file.size() - suffix.size());
    if (!std::filesystem::exists(binary)) continue;  // a lesson that was removed since
    Lesson lesson = read_description(entry.path());
    lesson.binary = binary;
    lesson.core = !core || core->contains(lesson.name);
    lessons.push_back(std::move(lesson));
  }
  std::sort(lessons.begin(), lessons.end(), [](const Lesson& a, const Lesson& b) { return a.name < b.name; });
  return lessons;
}

const Lesson& resolve_lesson(const std::vector<Lesson>& lessons, const std::string& word) {
  if (lessons.empty()) throw UsageError("no lesson is built in " + (build_folder() / "lessons").string() + "; build with: ./tenfold setup");
  std::vector<const Lesson*> found;
  for (const Lesson& lesson : lessons) {
    if (lesson.name == word || lesson.number() == word) return lesson;
    if (!word.empty() && lesson.name.find(word) != std::string::npos) found.push_back(&lesson);
  }
  if (found.size() == 1) return *found.front();
  if (found.size() > 1) {
    std::string names;
    for (const Lesson* lesson : found) names += (names.empty() ? "" : ", ") + lesson->name;
    throw UsageError("'" + word + "' means several lessons: " + names + "; give the number");
  }
  std::vector<std::string> names;
  for (const Lesson& lesson : lessons) names.push_back(lesson.name), names.push_back(lesson.name.substr(3));
  std::string guess = nearest(word, names);
  for (const Lesson& lesson : lessons) {
    if (lesson.name.substr(3) == guess) guess = lesson.name;
  }
  throw UsageError("unknown lesson '" + word + "'" + (guess.empty() ? "" : "; did you mean '" + guess + "'?") +
                   " (all lessons: tenfold list)");
}

}  // namespace tenfold::cli
