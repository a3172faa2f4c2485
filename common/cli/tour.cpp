// tour: probe, run the core lessons with live progress, print a headline for each lesson, write the report.

#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

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
#include "common/cli/this_machine.h"
#include "common/dry_gpu/preload.h"
#include "common/machine/fingerprint.h"
#include "common/pages/report/html_report.h"
#include "common/pages/rows/headlines.h"
#include "common/pages/rows/prediction_errors.h"
#include "common/pages/rows/terminal_table.h"
#include "common/pages/rows/verdict_json.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWidth = 80;  ///< the same on a terminal and in a pipe

struct Done {
  const DescribedLesson* lesson = nullptr;
  LessonEnd end;
  fs::path file;
};

/// A lesson's share of the time: its cases, since each case has the preset's time.
double weight_of(const DescribedLesson& lesson) {
  return static_cast<double>(std::max<size_t>(1, lesson.parts().size()));
}

std::string short_reason(const Done& done) {
  return done.end.problem.empty() ? meaning_of(done.end.code) : done.end.problem;
}

/// Variants that did not run, each with its reason; repeated reasons once with all names.
std::string skips_text(const std::vector<Result>& results,
                       const std::vector<std::pair<std::string, std::string>>& not_run, size_t width) {
  std::vector<std::pair<std::string, std::string>> reasons;  // reason, who
  const auto add = [&](const std::string& reason, const std::string& who) {
    for (auto& [known, list] : reasons) {
      if (known == reason) {
        if (("; " + list + ";").find("; " + who + ";") == std::string::npos) list += "; " + who;
        return;
      }
    }
    reasons.emplace_back(reason, who);
  };
  for (const auto& [lesson, reason] : not_run) add(reason, lesson);
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      for (const VariantResult& variant : c.variants) {
        if (variant.status == "skipped")
          add(variant.reason.empty() ? "no reason given" : variant.reason,
              number_of_name(result.lesson) + " " + variant.name);
      }
    }
  }
  std::string out = reasons.empty() ? "" : "\nNot run:\n";
  for (const auto& [reason, who] : reasons) out += "  " + wrap_text(one_line(who + ": " + reason), width - 2, 6) + "\n";
  return out;
}

nlohmann::ordered_json as_json(const std::vector<Done>& all, const std::vector<Result>& results,
                               const TourOptions& options, const fs::path& page, bool stopped) {
  nlohmann::ordered_json json = {{"machine", results.empty() ? this_machine().id : results.front().machine.id},
                                 {"preset", options.preset},
                                 {"interrupted", stopped},
                                 {"report", page.string()},
                                 {"lessons", nlohmann::ordered_json::array()},
                                 {"verdicts", verdicts_json(results)}};
  for (const Done& done : all) {
    json["lessons"].push_back({{"lesson", done.lesson->name},
                               {"exit_code", done.end.code},
                               {"problem", short_reason(done)},
                               {"seconds", done.end.seconds},
                               {"result", done.file.string()}});
  }
  for (const PredictionErrors& errors : prediction_errors(results))
    json["predictions"][errors.of] = {{"count", errors.count},
                                      {"median_error", errors.median},
                                      {"off", errors.off},
                                      {"worst_error", errors.worst},
                                      {"worst", errors.where}};
  return json;
}

void probe_first(Display& display) {
  const fs::path program = build_folder() / "tenfold-probe";
  const std::string& id = this_machine().id;
  if (!fs::exists(program) || fs::exists(ceilings_file(id))) return;
  display.update(0, "measuring what this machine can do at most");
  const End end = run_child({{program.string()}, {}, ""},
                            {[](const std::string&) {}, [](const std::string&) {}, {}, [&] { display.tick(); }});
  if (end.code != 0 && !asked_to_stop())
    display.say("the probe failed; lessons go on without ceilings (see: ./tenfold probe)");
}

}  // namespace

int tour(const TourOptions& options) {
  const std::vector<DescribedLesson> lessons = find_lessons();
  std::vector<const DescribedLesson*> path;
  for (const DescribedLesson& lesson : lessons) {
    if (options.all || lesson.core) path.push_back(&lesson);
  }
  if (path.empty())
    throw UsageError("no lesson is built in " + (build_folder() / "lessons").string() +
                     "; build with: ./tenfold setup");
  launched();  // an environment that contradicts itself is refused before anything is moved
  const std::string card = dry::card_of_device(value_of(options.flags, "--device", ""));
  const fs::path out = card.empty() ? out_folder(options.out) : dry_out_folder(card, options.out);
  require_writable_folder(out);
  if (card.empty() && !options.out.empty()) require_own_folder(out, this_machine());
  fs::create_directories(out);
  tidy_results(out);
  const FolderLock in_use(out, FolderLock::shared);

  Display display;
  if (card.empty()) probe_first(display);
  const double whole = std::accumulate(path.begin(), path.end(), 0.0, [](double sum, const DescribedLesson* lesson) {
    return sum + weight_of(*lesson);
  });
  double before = 0;
  std::vector<Done> all;
  std::vector<Result> results;
  std::vector<std::pair<std::string, std::string>> not_run;
  bool failed = false;
  for (const DescribedLesson* lesson : path) {
    if (asked_to_stop()) {
      not_run.emplace_back(lesson->name, "interrupted before it started");
      continue;
    }
    Done done;
    done.lesson = lesson, done.file = out / (lesson->name + ".json");
    // What an earlier run left is not today's: a lesson that crashes must not show yesterday's numbers.
    set_aside(done.file, /*keep=*/false);
    LessonStart start;
    start.flags = options.flags;
    start.flags["--json"] = {done.file.string()};
    start.output_file = out / (lesson->name + ".log");
    start.errors_to_file = true;
    start.from = before / whole, start.to = (before + weight_of(*lesson)) / whole;
    start.label = lesson->name + ": ";
    try {
      done.end = run_lesson(*lesson, start, display);
    } catch (const std::runtime_error& error) {
      done.end = {1, one_line(error.what()), 0};
    }
    before += weight_of(*lesson);
    std::string outcome = done.end.code == 0 ? "done" : short_reason(done);
    const bool measured = fs::exists(done.file);
    const std::string left = settle(done.file, /*stopped=*/done.end.code != 0 && done.end.code != 1);
    if (!left.empty()) display.say(lesson->name + ": " + left);
    if (measured) {
      try {
        results.push_back(read_result(done.file));
      } catch (const FileError& error) {
        failed = true, outcome = one_line(error.what());
        not_run.emplace_back(lesson->name, outcome);
      }
    } else {  // the earlier file stays, but not in this table
      not_run.emplace_back(lesson->name, outcome == "done" ? "wrote no result" : outcome);
    }
    failed = failed || (done.end.code != 0 && done.end.code != kNothingRan && done.end.code != kInterrupted);
    display.say(lesson->name + " (" + human_seconds(done.end.seconds) + "): " + outcome +
                (done.end.problem.empty() ? "" : "; log: " + shown(start.output_file)));
    all.push_back(std::move(done));
  }
  std::vector<Result> sweeps;
  try {
    sweeps = report_sweeps(out, results.empty() ? "" : results.front().machine.id);
  } catch (const FileError& error) {
    display.say("no sweeps in the report: " + one_line(error.what()));
  }
  display.clear();

  const fs::path page = report_page(out, card.empty() ? options.out : out.string());  // beside this machine's own
  write_atomically(page, html_report(results, not_run, sweeps));
  const bool stopped = asked_to_stop();
  if (options.json) {
    std::cout << as_json(all, results, options, page, stopped).dump(1) << "\n";
  } else {
    std::cout << "\n"
              << (options.verbose ? format_summary(results) : format_headlines(results, kWidth))
              << skips_text(results, not_run, options.verbose ? 120 : kWidth) << "\n";
    if (stopped) std::cout << "Interrupted: the lines above hold what was done.\n";
    std::cout << "Results: " << shown(out) << "/*.json\nTables:  " << shown(out) << "/*.log\nReport:  " << shown(page)
              << "\n";
    if (!options.verbose) std::cout << "All verdicts: in the report, or here with --verbose\n";
  }
  return stopped ? kInterrupted : failed ? kInvalid : 0;
}

}  // namespace tenfold::cli
