// list and run.

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/launchers.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/left_overs.h"
#include "common/cli/paths.h"
#include "common/cli/result_folders.h"
#include "common/cli/run_dry.h"
#include "common/cli/run_lesson.h"
#include "common/cli/starts.h"
#include "common/cli/this_machine.h"
#include "common/dry_gpu/preload.h"
#include "common/pages/rows/sweeps.h"
#include "common/result/code_hash.h"

namespace tenfold::cli {

namespace fs = std::filesystem;

namespace {

/// "measured 2026-11-21", "measured with other code", "not measured".
std::string status_of(const DescribedLesson& lesson, const fs::path& out) {
  const fs::path file = out / (lesson.name + ".json");
  if (!fs::exists(file)) return "not measured here";
  try {
    const Result result = read_result(file);
    const bool stale = result.code_hash != code_hash(source_folder() / "lessons" / lesson.name);
    return (stale ? "measured with other code " : "measured ") + result.started_at.substr(0, 10);
  } catch (const FileError&) {
    return "its result file cannot be read";
  }
}

}  // namespace

int list(bool json) {
  const std::vector<DescribedLesson> lessons = find_lessons();
  const fs::path out = out_folder("");
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const DescribedLesson& lesson : lessons) {
      all.push_back(nlohmann::ordered_json::parse(lesson.description));
      all.back()["status"] = status_of(lesson, out);
    }
    std::cout << all.dump(1) << "\n";
    return 0;
  }
  const std::vector<std::string> unbuilt = unbuilt_lessons();
  if (lessons.empty() && unbuilt.empty()) {
    std::cout << "there is no lesson in " << (source_folder() / "lessons").string() << "\n";
    return 0;
  }
  for (const DescribedLesson& lesson : lessons) {
    std::cout << lesson.name << "  " << lesson.title << (lesson.surveys_only() ? " (survey)" : "")
              << (lesson.core ? "" : " (not in the tour; tour --all)") << "\n";
    if (!lesson.question.empty()) std::cout << "    " << wrap_text(lesson.question, 112, 4) << "\n";
    if (!lesson.techniques.empty())
      std::cout << "    " << wrap_text(lesson.baseline + " against " + joined(lesson.techniques), 112, 4) << "\n";
    std::cout << "    " << status_of(lesson, out) << "\n";
  }
  for (const std::string& name : unbuilt) std::cout << name << "\n    not built yet\n";
  const std::string any = lessons.empty() ? unbuilt.front() : lessons.front().name;
  std::cout << "\nBuild and run one with: ./tenfold run " << number_of_name(any) << "\n";
  return 0;
}

namespace {

/// The file that a sweep goes to. What is no setting's or case's name is refused by the lesson.
std::string sweep_of(const DescribedLesson& lesson, const GivenFlags& flags) {
  const std::string sweep = value_of(flags, "--sweep", "");
  return sweep_file(lesson.name, sweep.substr(0, sweep.find('=')), swept_part(lesson, flags));
}

}  // namespace

int run_lessons(const RunOptions& options) {
  const std::vector<DescribedLesson> lessons = find_lessons();
  std::vector<const DescribedLesson*> chosen;
  for (const std::string& word : options.lessons) chosen.push_back(&resolve_lesson(lessons, word));
  const bool own_file = options.flags.contains("--describe") || options.flags.contains("--json");
  check_several_ranks(options.flags);
  if (options.flags.contains("--ranks") && !launched()) {
    for (const DescribedLesson* lesson : chosen)
      starts_of(*lesson, options.flags);  // refused before anything is measured
  }
  const std::string sweep = value_of(options.flags, "--sweep", "");
  const std::string card = dry::card_of_device(value_of(options.flags, "--device", ""));
  const fs::path folder = card.empty() ? out_folder(options.out) : dry_out_folder(card, options.out);
  const bool scales = ranks_given(options.flags).size() > 1;
  const fs::path out = !sweep.empty() ? folder / kSweepsFolder : scales ? folder / kRanksFolder : folder;
  if (!own_file) require_writable_folder(out);
  if (!own_file && card.empty() && !options.out.empty()) require_own_folder(out, this_machine());
  const bool writes =
      !own_file && ranks_from_environment().rank == 0;  // within a launcher the other ranks only measure
  if (writes) tidy_results(out);
  const FolderLock in_use(out, FolderLock::shared);

  std::vector<int> codes;
  Display display;
  for (size_t i = 0; i < chosen.size() && !asked_to_stop(); ++i) {
    LessonStart start;
    start.flags = options.flags;
    fs::path file;
    if (!own_file) {
      file = out / (sweep.empty() ? chosen[i]->name + ".json" : sweep_of(*chosen[i], options.flags));
      start.flags["--json"] = {file.string()};
    }
    start.from = static_cast<double>(i) / static_cast<double>(chosen.size());
    start.to = static_cast<double>(i + 1) / static_cast<double>(chosen.size());
    start.label = chosen[i]->name + ": ";
    if (writes) set_aside(file, /*keep=*/true);
    const LessonEnd end = run_lesson(*chosen[i], start, display);
    const std::string left = !writes ? "" : settle(file, /*stopped=*/end.code != 0 && end.code != 1);
    display.clear();
    if (!left.empty()) display.say(left);
    if (!end.problem.empty() && end.code != kBadUsage) display.say("tenfold: " + chosen[i]->name + ": " + end.problem);
    const bool nothing_to_build = value_of(options.flags, "--preset", "") == "build" && chosen[i]->cases.empty();
    if (end.code == kNothingRan)
      display.say(chosen[i]->name + ": " +
                  (nothing_to_build ? "--preset build only builds the variants of cases, and this lesson has none"
                                    : meaning_of(end.code)));
    if (!own_file && fs::exists(file) && (end.code == 0 || end.code == 1 || end.code == kInterrupted))
      display.say("result: " + shown(file));
    codes.push_back(end.code);
  }
  return asked_to_stop() ? kInterrupted : combined(codes);
}

}  // namespace tenfold::cli
