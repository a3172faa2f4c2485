// claims: what articles promise, held against results.

#include <algorithm>
#include <iostream>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/lessons.h"
#include "common/cli/numbered_names.h"
#include "common/cli/paths.h"
#include "common/cli/result_folders.h"
#include "common/pages/book/claims.h"
#include "common/pages/book/claims_page.h"
#include "common/pages/book/generated.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// Every lesson of the tree; with its parts where it is built.
std::map<std::string, LessonParts> known_lessons() {
  std::map<std::string, LessonParts> lessons;
  for (const std::string& name : unbuilt_lessons()) lessons[name] = {};
  for (const DescribedLesson& lesson : find_lessons())
    lessons[lesson.name] = described_parts(build_folder() / "lessons" / (lesson.name + ".describe.json"));
  return lessons;
}

void require_machine(const std::vector<Result>& results, const std::string& machine) {
  std::set<std::string> machines;
  for (const Result& result : results) machines.insert(result.machine.id);
  if (machines.contains(machine)) return;
  throw UsageError("--machine " + machine + ": no result is from it; there are results of " +
                   (machines.empty() ? "no machine" : joined({machines.begin(), machines.end()})));
}

}  // namespace

int claims(const ClaimsOptions& options) {
  const fs::path file = source_folder() / "docs" / "claims.json";
  const std::map<std::string, LessonParts> lessons = known_lessons();
  const Ledger ledger = read_ledger(file);
  check_names(ledger, shown(file), lessons);
  // Nothing runs, so the lesson need not be built.
  std::vector<std::string> names;
  for (const auto& [name, parts] : lessons) names.push_back(name);
  const std::string lesson =
      options.lesson.empty() ? "" : name_meant("lesson", names, options.lesson, "./tenfold list");
  std::vector<Result> results;
  if (options.results.empty()) {
    results = published_results(source_folder());
    const std::vector<Result> dry = dry_results(source_folder());
    results.insert(results.end(), dry.begin(), dry.end());
  } else {
    results = read_results(options.results);
  }
  if (!options.machine.empty()) require_machine(results, options.machine);
  std::cout << ledger_text(ledger, results, lesson, options.machine);
  return 0;
}

}  // namespace tenfold::cli
