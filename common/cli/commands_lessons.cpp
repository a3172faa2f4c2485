// The commands that list, run and begin lessons and exercises: their options.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "common/base/flags.h"
#include "common/cli/command_table.h"
#include "common/cli/commands.h"

namespace tenfold::cli {

Action tour_command(CLI::App& app) {
  const auto options = std::make_shared<TourOptions>();
  app.add_flag("--all", options->all, "every lesson: about 35 minutes instead of 7");
  // Those that mean the same in every lesson. The others choose within one (--case, --only, --set, --sweep), name one
  // file (--json, --trace, --describe), or give a case the time of several (--rounds).
  for (const char* flag : {"--preset", "--size", "--device", "--seed", "--threads"})
    add_flag(app, lesson_flag(flag), options->flags);
  app.add_option("--out", options->out, "folder for the results; default out/<machine>")->type_name("DIR");
  app.add_flag("--verbose", options->verbose, "every verdict instead of a headline for each lesson");
  app.add_flag("--json", options->json, "print one JSON object instead of the table");
  return [options] {
    options->preset = value_of(options->flags, "--preset", options->preset);
    options->flags["--preset"] = {options->preset};
    return tour(*options);
  };
}

Action list_command(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "as a JSON array");
  return [json] { return list(*json); };
}

Action run_command(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  app.add_option("lesson", options->lessons, "e.g. 30_gradient_accumulation, 30, accumulation")
      ->required()
      ->type_name("");
  app.add_option("--out", options->out, "folder for the results, unless --json names a file; default out/<machine>")
      ->type_name("DIR");
  for (const Flag& flag : lesson_flags()) add_flag(app, flag, options->flags)->group("Flags of the lessons");
  return [options] {
    const bool one_file = options->flags.contains("--json") || options->flags.contains("--trace");
    if (one_file && options->lessons.size() > 1)
      throw UsageError(
          "--json and --trace name one file, but several lessons are to run; use --out DIR or run them one by one");
    return run_lessons(*options);
  };
}

Action exercise_command(CLI::App& app) {
  const auto options = std::make_shared<ExerciseOptions>();
  const auto given = std::make_shared<GivenFlags>();
  app.add_option("exercise", options->exercise, "e.g. 30, or map")->type_name("");
  auto* reset = app.add_flag("--reset", options->reset, "start over; your file is moved aside, not deleted");
  auto* hint = app.add_flag("--hint", options->hint, "print a second hint, beyond those of the checks");
  app.add_flag("--solution", options->solution, "print where a solution is, and how yours differs")
      ->excludes(reset)
      ->excludes(hint);
  hint->excludes(reset);
  add_flag(app,
           {.name = "--limit",
            .value = "SECONDS",
            .help = "stop an answer whose checks have not ended after so many seconds (120 unless given)",
            .range = Range{1}},
           *given);
  return [options, given] {
    options->limit_s = static_cast<double>(number_of(*given, "--limit", 120));
    return exercise(*options);
  };
}

Action new_lesson_command(CLI::App& app) {
  const auto folder = std::make_shared<std::string>();
  const auto from = std::make_shared<std::string>("30");
  app.add_option("folder", *folder, "number and name, e.g. 66_my_technique")->type_name("");
  app.add_option("--from", *from, "the lesson that is copied, by number or name; default 30")->type_name("LESSON");
  return [folder, from] { return new_lesson(*folder, *from); };
}

}  // namespace tenfold::cli
