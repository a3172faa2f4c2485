// report and version.

#include <algorithm>
#include <iostream>
#include <map>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/lessons.h"
#include "common/cli/paths.h"
#include "common/cli/result_folders.h"
#include "common/machine/fingerprint.h"
#include "common/pages/book/generated.h"
#include "common/pages/report/html_report.h"
#include "common/pages/rows/sweeps.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// What generated tables say about the lessons, from their own descriptions.
std::vector<LessonEntry> lesson_entries() {
  std::vector<LessonEntry> entries;
  const std::vector<DescribedLesson> lessons = find_lessons();
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(source_folder() / "lessons", none)) {
    const std::string name = entry.path().filename().string();
    const bool built =
        std::any_of(lessons.begin(), lessons.end(), [&](const DescribedLesson& lesson) { return lesson.name == name; });
    if (fs::exists(entry.path() / "CMakeLists.txt") && !built)
      throw UsageError("lesson " + name + " is not built, so its row cannot be written; build with: ./tenfold setup");
  }
  for (const DescribedLesson& lesson : lessons)
    entries.push_back(
        {lesson.name, lesson.title, lesson.question, lesson.workload, lesson.surveys_only(), lesson.core});
  return entries;
}

int page_for_this_machine(const std::string& out_option) {
  const fs::path out = out_folder(out_option);
  if (!fs::is_directory(out)) throw UsageError(shown(out) + ": there are no results yet; measure with: ./tenfold tour");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (files.empty()) throw UsageError(shown(out) + ": holds no result file; measure with: ./tenfold tour");
  std::sort(files.begin(), files.end());
  std::vector<Result> results;
  for (const fs::path& file : files) results.push_back(read_result(file));
  std::vector<std::pair<std::string, std::string>> not_run;
  for (const DescribedLesson& lesson : find_lessons()) {
    const bool there =
        std::any_of(results.begin(), results.end(), [&](const Result& result) { return result.lesson == lesson.name; });
    if (!there) not_run.emplace_back(lesson.name, "not measured yet; run: ./tenfold run " + lesson.number());
  }
  const fs::path page = report_page(out, out_option);
  write_atomically(page, html_report(results, not_run, report_sweeps(out, results.front().machine.id)));
  std::cout << shown(page) << "\n";
  return 0;
}

}  // namespace

int report(const ReportOptions& options) {
  if (!options.write && !options.check) return page_for_this_machine(options.out);
  std::vector<GeneratedFile> files;
  try {
    files = generate_documents(source_folder(), lesson_entries());
  } catch (const ContradictedSentences& sentences) {
    for (const std::string& line : sentences.lines()) std::cerr << "tenfold: " << line << "\n";
    return kBadUsage;
  }
  std::vector<PageFigure> to_draw;
  for (const GeneratedFile& file : files) {
    if (file.figure) to_draw.push_back(*file.figure);
  }
  std::map<fs::path, std::string> drawn;
  if (options.write && !to_draw.empty())
    drawn = draw_figures(to_draw, source_folder() / ".venv" / "bin" / "python",
                         source_folder() / "common" / "tools" / "figures.py");
  int stale = 0;
  for (const GeneratedFile& file : files) {
    if (!file.figure && file.text == file.old_text) continue;
    ++stale;
    if (options.write && !file.figure && file.text.empty()) {
      fs::remove(file.path);
      std::cout << "removed: " << shown(file.path) << "\n";
    } else if (options.write) {
      fs::create_directories(file.path.parent_path());
      write_atomically(file.path, file.figure ? drawn.at(file.path) : file.text);
      std::cout << "rewritten: " << shown(file.path) << "\n";
    } else {
      std::cout << "stale: " << shown(file.path) << " (rewrite with: ./tenfold report --write)\n";
    }
  }
  if (stale == 0) std::cout << "all generated parts are current\n";
  return options.check && stale > 0 ? kInvalid : 0;
}

int version() {
  std::cout << "tenfold " << TENFOLD_VERSION << " (results " << kResultSchema << ", built in " << shown(build_folder())
            << ", C++ " << __cplusplus / 100 % 100 << ", " << fingerprint().compiler << ")\n";
  return 0;
}

}  // namespace tenfold::cli
