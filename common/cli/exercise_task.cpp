#include "common/cli/exercise_task.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/cli/numbered_names.h"
#include "common/cli/paths.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFold = "<details><summary>Second hint</summary>";

}  // namespace

Task task_of(const std::string& readme) {
  Task task;
  const size_t fold = readme.find(kFold);
  if (fold != std::string::npos) {
    const size_t begin = fold + std::string(kFold).size();
    task.hint = trimmed(readme.substr(begin, readme.find("</details>", begin) - begin));
  }
  task.text = trimmed(readme.substr(0, fold));
  if (task.text.starts_with("# ")) task.text.erase(0, 2);
  const std::string heading = first_line(task.text);
  const size_t colon = heading.find(": ");
  task.title = colon == std::string::npos ? heading : heading.substr(colon + 2);
  std::istringstream lines(task.text);
  const std::regex effort(R"(Difficulty: (easy|medium|hard)\. About (\d+) minutes\..*)");
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, effort)) task.difficulty = match[1], task.minutes = match[2];
  }
  return task;
}

Task Exercise::task() const {
  return fs::exists(given / "README.md") ? task_of(read_text(given / "README.md")) : Task{};
}

std::vector<Exercise> exercises() {
  std::vector<Exercise> found;
  const auto add = [&](const fs::path& folder, const fs::path& below) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      const fs::path given = below.empty() ? entry.path() : entry.path() / below;
      if (fs::exists(given / "starter.h")) found.push_back({entry.path().filename().string(), given});
    }
  };
  add(source_folder() / "lessons", "exercise");
  add(source_folder() / "kernels" / "warm_ups", "");
  std::ranges::sort(found, {}, &Exercise::name);
  return found;
}

Exercise resolve_exercise(const std::string& word) {
  const std::vector<Exercise> all = exercises();
  std::vector<std::string> names;
  for (const Exercise& exercise : all) names.push_back(exercise.name);
  const std::string meant = name_meant("exercise", names, word, "./tenfold exercise");
  return *std::ranges::find(all, meant, &Exercise::name);
}

}  // namespace tenfold::cli
