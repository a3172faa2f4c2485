// list and run; what the other commands share about results and folders.

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include <tenfold/code_hash.h>
#include <tenfold/fingerprint.h>
#include <tenfold/humanize.h>

#include "commands.h"
#include "paths.h"
#include "process.h"
#include "run_lesson.h"

namespace tenfold::cli {

namespace fs = std::filesystem;

fs::path out_folder(const std::string& chosen) {
  // The shell's current folder, not the checkout, is what a relative name means to the one who typed it.
  return chosen.empty() ? source_folder() / "out" / fingerprint().id : fs::absolute(chosen);
}

std::vector<Result> read_results(const fs::path& path) {
  if (!fs::exists(path)) throw UsageError(path.string() + ": does not exist; name a result file or a folder of them");
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (auto at = fs::recursive_directory_iterator(path); at != fs::recursive_directory_iterator(); ++at) {
      if (at->is_directory() && at->path().filename() == "bench") at.disable_recursion_pending();  // reports of another kind
      if (at->is_regular_file() && at->path().extension() == ".json") files.push_back(at->path());
    }
    if (files.empty()) throw UsageError(path.string() + ": holds no result file (*.json)");
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  std::vector<Result> results;
  for (const fs::path& file : files) results.push_back(read_result(file));
  return results;
}

namespace {

/// "measured 2026-11-21", "measured with other code", "not measured".
std::string status_of(const Lesson& lesson, const fs::path& out) {
  const fs::path file = out / (lesson.name + ".json");
  if (!fs::exists(file)) return "not measured here";
  try {
    const Result result = read_result(file);
    const bool stale = result.code_hash != code_hash(source_folder() / "lessons" / lesson.name);
    return (stale ? "measured with other code " : "measured ") + result.started_at.substr(0, 10);
  } catch (const ResultError&) {
    return "its result file cannot be read";
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

int list(bool json) {
  const std::vector<Lesson> lessons = find_lessons();
  const fs::path out = out_folder("");
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const Lesson& lesson : lessons) {
      all.push_back({{"lesson", lesson.name},
                     {"title", lesson.title},
                     {"question", lesson.question},
                     {"workload", lesson.workload},
                     {"foundation", lesson.foundation},
                     {"core", lesson.core},
                     {"ranks", lesson.ranks},
                     {"baseline", lesson.baseline},
                     {"techniques", lesson.techniques},
                     {"cases", lesson.cases},
                     {"settings", lesson.settings},
                     {"status", status_of(lesson, out)}});
    }
    std::cout << all.dump(1) << "\n";
    return 0;
  }
  if (lessons.empty()) {
    std::cout << "no lesson is built; build with: ./tenfold setup\n";
    return 0;
  }
  for (const Lesson& lesson : lessons) {
    std::cout << lesson.name << "  " << lesson.title << (lesson.foundation ? " (foundation)" : "")
              << (lesson.core ? "" : " (not in the tour; tour --all)") << "\n";
    if (!lesson.question.empty()) std::cout << "    " << wrap_text(lesson.question, 112, 4) << "\n";
    if (!lesson.techniques.empty())
      std::cout << "    " << wrap_text(lesson.baseline + " against " + joined(lesson.techniques), 112, 4) << "\n";
    std::cout << "    " << status_of(lesson, out) << "\n";
  }
  std::cout << "\nRun one with: tenfold run " << lessons.front().number() << "\n";
  return 0;
}

int run_lessons(const RunOptions& options) {
  const std::vector<Lesson> lessons = find_lessons();
  std::vector<const Lesson*> chosen;
  for (const std::string& word : options.lessons) chosen.push_back(&resolve_lesson(lessons, word));
  const bool describe = std::find(options.flags.begin(), options.flags.end(), "--describe") != options.flags.end();
  const fs::path out = out_folder(options.out);
  if (!describe && !options.own_json) require_writable_folder(out);

  int worst = 0;
  Display display;
  for (size_t i = 0; i < chosen.size() && !interrupted(); ++i) {
    LessonStart start;
    start.flags = options.flags;
    const fs::path file = out / (chosen[i]->name + ".json");
    if (!describe && !options.own_json) start.flags.insert(start.flags.end(), {"--json", file.string()});
    start.from = static_cast<double>(i) / static_cast<double>(chosen.size());
    start.to = static_cast<double>(i + 1) / static_cast<double>(chosen.size());
    start.label = chosen[i]->name + ": ";
    const LessonEnd end = run_lesson(*chosen[i], start, display);
    display.clear();
    if (!end.problem.empty() && end.code != kBadUsage) display.say("tenfold: " + chosen[i]->name + ": " + end.problem);
    if (end.code == kNothingRan) display.say(chosen[i]->name + ": " + meaning_of(end.code));
    if (!describe && !options.own_json && fs::exists(file) && (end.code == 0 || end.code == 1 || end.code == kInterrupted))
      display.say("result: " + shown(file));
    // A crash outranks an invalid run, and "nothing can run here" hides behind anything that did run.
    const auto weight = [](int code) { return code == 0 ? 0 : code == kNothingRan ? 1 : code == 1 ? 2 : 3; };
    const bool only = chosen.size() == 1;
    if (only || weight(end.code) > weight(worst)) worst = end.code == kNothingRan && !only ? worst : end.code;
  }
  return interrupted() ? kInterrupted : worst;
}

}  // namespace tenfold::cli
