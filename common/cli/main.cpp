// tenfold: the driver behind ./tenfold. One command, then its flags; bad input is one line and exit code 2.

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "common/base/flags.h"
#include "common/base/streams.h"
#include "common/base/text.h"

#include "common/base/files.h"
#include "common/cli/command_line.h"
#include "common/cli/commands.h"
#include "common/cli/paths.h"
#include "common/result/compare_results.h"

namespace {

using tenfold::UsageError;
using tenfold::cli::kScriptCommands;

int run(int argc, char** argv) {
  CLI::App app("", "tenfold");
  app.formatter(std::make_shared<tenfold::cli::Overview>());
  app.require_subcommand(0, 1);
  app.set_help_flag("-h,--help", tenfold::kHelpText);
  app.set_version_flag("--version", "print the version and what it was built with");
  const auto command = [&](const std::string& name, const std::string& what) {
    return app.add_subcommand(name, what)->allow_extras()->fallthrough(false);
  };

  tenfold::cli::TourOptions tour;
  auto* tour_command =
      command("tour",
              "probe this machine, run the core lessons, print one table of verdicts and write a report\n"
              "Results go to <out>/<lesson>.json.\n"
              "Ctrl-C keeps what is done. Exit code 1 when a lesson failed, 130 when interrupted.");
  tour_command->add_flag("--all", tour.all, "every lesson: about 20 minutes instead of 7");
  tenfold::GivenFlags tour_flags;
  // Those that mean the same in every lesson. The others choose within one (--case, --only, --set, --sweep), name one
  // file (--json, --trace, --describe), or give a case the time of several (--rounds).
  for (const char* flag : {"--preset", "--size", "--device", "--seed", "--threads"})
    tenfold::add_flag(*tour_command, tenfold::lesson_flag(flag), tour_flags);
  tour_command->add_option("--out", tour.out, "folder for the results; default out/<machine>")->type_name("DIR");
  tour_command->add_flag("--verbose", tour.verbose, "every verdict instead of a headline for each lesson");
  tour_command->add_flag("--json", tour.json, "print one JSON object instead of the table");

  bool list_json = false;
  auto* list_command = command("list", "all lessons, with what each asks and when it was measured here");
  list_command->add_flag("--json", list_json, "as a JSON array");

  tenfold::cli::RunOptions run;
  tenfold::GivenFlags lesson_flags;
  auto* run_command = command(
      "run",
      "run some lessons: by name, by number, or by a part of the name\n"
      "The flags of the lessons are handed on as they are; with --json or --trace only one lesson can run. Exit "
      "code: the worst of the lessons' (0 fine, 1 not valid, 77 cannot run here).");
  run_command->add_option("lesson", run.lessons, "e.g. 30_gradient_accumulation, 30, accumulation")
      ->required()
      ->type_name("");
  run_command->add_option("--out", run.out, "folder for the results, unless --json names a file; default out/<machine>")
      ->type_name("DIR");
  for (const tenfold::Flag& flag : tenfold::lesson_flags())
    tenfold::add_flag(*run_command, flag, lesson_flags)->group("Flags of the lessons");

  tenfold::cli::ExerciseOptions exercise;
  tenfold::GivenFlags exercise_flags;
  auto* exercise_command = command("exercise",
                                   "start or check an exercise; without a name: the list of them\n"
                                   "The first call copies a starter to exercises/NAME/exercise.h; edit it and call "
                                   "again. Exit code 0 when every check passes.");
  exercise_command->add_option("exercise", exercise.exercise, "e.g. 30, or map")->type_name("");
  auto* reset =
      exercise_command->add_flag("--reset", exercise.reset, "start over; your file is moved aside, not deleted");
  auto* hint = exercise_command->add_flag("--hint", exercise.hint, "print a second hint, beyond those of the checks");
  exercise_command->add_flag("--solution", exercise.solution, "print where a solution is, and how yours differs")
      ->excludes(reset)
      ->excludes(hint);
  hint->excludes(reset);
  tenfold::add_flag(*exercise_command,
                    {.name = "--limit",
                     .value = "SECONDS",
                     .help = "stop an answer whose checks have not ended after so many seconds (120 unless given)",
                     .range = tenfold::Range{1}},
                    exercise_flags);

  tenfold::cli::KernelOptions kernel;
  tenfold::GivenFlags kernel_flags;
  auto* kernel_command =
      command("kernel",
              "a CUDA kernel under the microscope, on any machine: what its warps ask of the memory, and its races\n"
              "Runs the kernel's own source on the CPU and counts. Without a name: the list of kernels. Exit code: 0; "
              "1 when a result is "
              "wrong, or a race or a fault was found.");
  kernel_command->add_option("name", kernel.name, "e.g. transpose")->type_name("");
  for (const tenfold::Flag& flag : tenfold::kernel_flags()) tenfold::add_flag(*kernel_command, flag, kernel_flags);

  tenfold::cli::DryOptions dry;
  tenfold::GivenFlags dry_flags;
  auto* dry_command =
      command("dry",
              "run a program of LibTorch or PyTorch on a GPU that is not there: does it fit, what does it ask\n"
              "Its allocator, streams and launches are LibTorch's own and are counted; nothing is computed, no time is "
              "measured. The program stands behind \"--\" and must be built with CUDA 13. Exit code: the program's.");
  dry_command->add_flag("--list", dry.list, "the cards that there are");
  dry_command->add_option("--gpu", dry.gpu, "which card; default H100")->type_name("NAME");
  tenfold::add_flag(
      *dry_command,
      {.name = "--gpus", .value = "N", .help = "how many of it; default 1", .range = tenfold::Range{1, 64}}, dry_flags);
  tenfold::add_flag(*dry_command,
                    {.name = "--arithmetic",
                     .value = "WHEN",
                     .help = "compute, on the CPU: late, when somebody waits, or early; both are orders of a GPU",
                     .choices = {"late", "early"}},
                    dry_flags);

  auto* probe_command =
      command("probe", "measure what this machine can do at most: copy and compute rates, launch cost");
  auto* doctor_command = command("doctor", "what this machine has and lacks, each with the fix");

  tenfold::cli::ReportOptions report;
  auto* report_command =
      command("report", "write out/report.html from the results of this machine; or the tables in the documentation");
  auto* write = report_command->add_flag(
      "--write", report.write,
      "rewrite every generated part of README.md, lessons/*/README.md, kernels/*/README.md and docs/*.md");
  report_command
      ->add_flag("--check", report.check, "name each file whose generated part is stale; exit code 1 if there is one")
      ->excludes(write);
  report_command->add_option("--out", report.out, "folder with the results; default out/<machine>")->type_name("DIR");

  std::string publish_out;
  auto* publish_command =
      command("publish",
              "copy this machine's results to results/, if they come from the clean, committed code of this tree\n"
              "All of them or none. They must have been measured with one preset, full unless --preset says otherwise; "
              "a case with "
              "fewer rounds than an interval wants is named.");
  publish_command
      ->add_option("--out", publish_out, "folder with the results; default out/<machine>, with --bench out/bench")
      ->type_name("DIR");
  tenfold::GivenFlags publish_flags;
  tenfold::Flag publish_preset = tenfold::lesson_flag("--preset");
  publish_preset.choices = {"check", "smoke", "quick", "full"};  // of build there is nothing to publish
  publish_preset.help =
      "the preset that the results must have been measured with: smoke, quick or full (the default); of a dry GPU "
      "check";
  auto* preset = tenfold::add_flag(*publish_command, publish_preset, publish_flags);
  bool publish_reports = false;
  publish_command
      ->add_flag("--bench", publish_reports, "the reports of ./tenfold bench instead of the lessons' results")
      ->excludes(preset);
  bool publish_sweeps = false;
  publish_command
      ->add_flag("--sweep", publish_sweeps,
                 "the sweeps in out/<machine>/sweeps instead, of 2 to 6 points each; their preset is quick, unless "
                 "--preset says otherwise")
      ->excludes("--bench");
  bool publish_dry = false;
  auto* dry_run =
      publish_command
          ->add_flag(
              "--dry-run", publish_dry,
              "copy nothing: write the file that would be sent, print what is in it, and test this run's judgement")
          ->excludes("--bench")
          ->excludes("--sweep");
  std::vector<std::string> publish_files;
  publish_command->add_option("files", publish_files, "with --dry-run: only these results, e.g. out/MACHINE/30_*.json")
      ->needs(dry_run)
      ->excludes("--out")
      ->type_name("");
  std::string received;
  publish_command->add_option("--received", received, "check a file that somebody sent, and copy its results")
      ->type_name("FILE")
      ->excludes("--dry-run")
      ->excludes("--bench")
      ->excludes("--sweep")
      ->excludes("--out")
      ->excludes(preset);

  std::string reproduce_results, reproduce_out;
  auto* reproduce_command = command("reproduce", "run what a published result ran, and print theirs beside yours");
  reproduce_command
      ->add_option("results", reproduce_results, "a result file or a folder of them, e.g. results/h100-80gb-hbm3")
      ->required()
      ->type_name("");
  reproduce_command->add_option("--out", reproduce_out, "folder for your results; default out/<machine>/reproduced")
      ->type_name("DIR");

  std::vector<std::string> compare_paths;
  bool compare_json = false;
  auto* compare_command =
      command("compare", "result files or folders side by side, row by row; the first is the reference");
  compare_command->add_option("results", compare_paths, "two or more; with --across also one, whose rows are compared")
      ->required()
      ->type_name("");
  compare_command->add_flag("--json", compare_json, "as a JSON object");
  tenfold::GivenFlags compare_flags;
  tenfold::add_flag(*compare_command,
                    {.name = "--across",
                     .value = "PART",
                     .help = "join rows that differ in this one part: ranks, threads, device, size or dtype",
                     .choices = {tenfold::kAcross.begin(), tenfold::kAcross.end()}},
                    compare_flags);

  tenfold::cli::ClaimsOptions claims;
  auto* claims_command = command("claims",
                                 "what articles promise, judged by published results, and what others measured\n"
                                 "A verdict for each machine: holds, does not hold, depends, not measured here. "
                                 "docs/claims.md says how.");
  claims_command->add_option("--lesson", claims.lesson, "only the claims that this lesson tests, e.g. 30")
      ->type_name("LESSON");
  claims_command->add_option("--machine", claims.machine, "only this machine's verdicts, e.g. 2x-intel-xeon")
      ->type_name("ID");
  claims_command->add_option("results", claims.results, "a result file or a folder of them; default results/")
      ->type_name("");

  auto* data_command = command(
      "data",
      "what data there are; `data pack` fetches pictures (131 MB, once) and packs them into shards\n"
      "docs/data.md says what each set is. Shards lie in data/shards of the cache; what is packed already is not "
      "packed again.");
  auto* pack_command =
      data_command
          ->add_subcommand(
              "pack",
              "pack the pictures of openclipart into a train and a test shard: as PNG files, unless told otherwise")
          ->allow_extras()
          ->fallthrough(false);
  tenfold::GivenFlags pack_flags;
  for (const auto& [name, help] : {std::pair("--jpeg", "as JPEG files, longer side at most SIDE"),
                                   std::pair("--raw", "as pixels, SIDE x SIDE x 3 bytes each")}) {
    tenfold::add_flag(*pack_command, {.name = name, .value = "SIDE", .help = help, .range = tenfold::Range{8, 4096}},
                      pack_flags);
  }

  std::string new_folder, new_from = "30";
  auto* new_command = command("new-lesson",
                              "begin a lesson as a copy of another: new-lesson 66_my_technique\n"
                              "The copy is version 1, installs no header, and its page shows no number. "
                              "docs/adding_a_lesson.md goes on from there.");
  new_command->add_option("folder", new_folder, "number and name, e.g. 66_my_technique")->type_name("");
  new_command->add_option("--from", new_from, "the lesson that is copied, by number or name; default 30")
      ->type_name("LESSON");

  auto* version_command = command("version", "print the version and what it was built with");
  auto* help_command = command("help", "this overview");

  // A word that is no command would otherwise be an unexpected argument of nothing.
  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> names;
    for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
    for (const auto& [name, what] : kScriptCommands) names.push_back(name);
    const std::string word = argv[1];
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      const std::string guess = tenfold::nearest(word, names);
      throw UsageError("unknown command '" + word + "'" + (guess.empty() ? "" : "; did you mean '" + guess + "'?") +
                       " (all commands: tenfold help)");
    }
    for (const auto& [name, what] : kScriptCommands) {
      if (word == name) throw UsageError("'" + name + "' is run by the script; call: ./tenfold " + name);
    }
  }
  // What a program is called with behind "--" is none of ours.
  if (argc > 1 && std::string(argv[1]) == "dry") {
    char** const own_end = std::find_if(argv, argv + argc, [](const char* word) { return std::string(word) == "--"; });
    if (own_end < argv + argc) dry.program.assign(own_end + 1, argv + argc);
    argc = static_cast<int>(own_end - argv);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    return tenfold::cli::version();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const auto parsed = app.get_subcommands();
    const std::string name = parsed.empty() ? "" : " " + parsed.front()->get_name();
    throw UsageError(tenfold::one_line(error.what()) + " (see: tenfold" + name + " --help)");
  }
  const auto parsed = app.get_subcommands();
  if (parsed.empty() || help_command->parsed()) {
    const std::vector<std::string> about = help_command->remaining();  // "help run"
    const CLI::App* shown = about.empty() ? &app : nullptr;
    for (const CLI::App* known : app.get_subcommands({})) {
      if (!about.empty() && known->get_name() == about.front()) shown = known;
    }
    if (!shown) throw UsageError("unknown command '" + about.front() + "' (all commands: tenfold help)");
    std::cout << app.get_formatter()->make_help(shown, "tenfold " + shown->get_name(), CLI::AppFormatMode::Normal);
    return 0;
  }
  tenfold::cli::refuse_extras(*parsed.front());
  if (pack_command->parsed()) tenfold::cli::refuse_extras(*pack_command);

  if (tour_command->parsed()) {
    tour.preset = tenfold::value_of(tour_flags, "--preset", tour.preset);
    tour_flags["--preset"] = {tour.preset};
    tour.flags = tour_flags;
    return tenfold::cli::tour(tour);
  }
  if (list_command->parsed()) return tenfold::cli::list(list_json);
  if (run_command->parsed()) {
    run.flags = lesson_flags;
    const bool one_file = lesson_flags.contains("--json") || lesson_flags.contains("--trace");
    if (one_file && run.lessons.size() > 1)
      throw UsageError(
          "--json and --trace name one file, but several lessons are to run; use --out DIR or run them one by one");
    return tenfold::cli::run_lessons(run);
  }
  if (exercise_command->parsed()) {
    exercise.limit_s = static_cast<double>(tenfold::number_of(exercise_flags, "--limit", 120));
    return tenfold::cli::exercise(exercise);
  }
  if (kernel_command->parsed()) {
    kernel.flags = tenfold::as_arguments(kernel_flags);
    return tenfold::cli::kernel(kernel);
  }
  if (dry_command->parsed()) {
    dry.gpus = static_cast<int>(tenfold::number_of(dry_flags, "--gpus", 1));
    dry.arithmetic = tenfold::value_of(dry_flags, "--arithmetic", "");
    return tenfold::cli::dry(dry);
  }
  if (probe_command->parsed()) return tenfold::cli::probe();
  if (doctor_command->parsed()) return tenfold::cli::doctor();
  if (report_command->parsed()) return tenfold::cli::report(report);
  if (publish_command->parsed()) {
    if (publish_reports) return tenfold::cli::publish_bench(publish_out);
    if (!received.empty()) return tenfold::cli::publish_received(received);
    if (publish_dry)
      return tenfold::cli::publish_dry_run(publish_out, publish_files,
                                           tenfold::value_of(publish_flags, "--preset", "full"));
    return tenfold::cli::publish(
        publish_out, tenfold::value_of(publish_flags, "--preset", publish_sweeps ? "quick" : "full"), publish_sweeps);
  }
  if (reproduce_command->parsed()) return tenfold::cli::reproduce(reproduce_results, reproduce_out);
  if (compare_command->parsed())
    return tenfold::cli::compare(compare_paths, compare_json, tenfold::value_of(compare_flags, "--across", ""));
  if (claims_command->parsed()) return tenfold::cli::claims(claims);
  if (pack_command->parsed()) {
    const auto side = [&](const std::string& form) {
      return static_cast<int>(tenfold::number_of(pack_flags, form, 0));
    };
    return tenfold::cli::pack_data({.jpeg = side("--jpeg"), .raw = side("--raw")});
  }
  if (data_command->parsed()) return tenfold::cli::list_data();
  if (new_command->parsed()) return tenfold::cli::new_lesson(new_folder, new_from);
  if (version_command->parsed()) return tenfold::cli::version();
  return 0;
}

}  // namespace

/// Whether whoever read our standard output has left, as `head` does.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int main(int argc, char** argv) {
  tenfold::open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has seen enough must not cost what is being measured
  int code = 0;
  try {
    code = run(argc, argv);
  } catch (const std::exception& error) {  // UsageError, FileError, a file system that says no
    std::fflush(stdout);
    std::fprintf(stderr, "tenfold: %s\n", tenfold::one_line(error.what()).c_str());
    return tenfold::cli::kBadUsage;
  }
  // A table that went to a full disk is no table.
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout;
  if (!written && !reader_is_gone()) {
    std::fprintf(stderr, "tenfold: standard output cannot be written (is the disk full?)\n");
    return tenfold::cli::kBadUsage;
  }
  return code;
}
