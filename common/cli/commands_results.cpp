// The commands that read results, this machine's or published: their options.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "common/base/flags.h"
#include "common/cli/command_table.h"
#include "common/cli/commands.h"
#include "common/result/compare_results.h"

namespace tenfold::cli {
namespace {

/// What is published: the lessons' results, unless one of these says otherwise.
struct PublishOptions {
  std::string out, received;
  std::vector<std::string> files;
  bool bench = false, sweeps = false, dry_run = false;
  GivenFlags given;
};

int publish_chosen(const PublishOptions& options) {
  if (options.bench) return publish_bench(options.out);
  if (!options.received.empty()) return publish_received(options.received);
  const std::string preset = value_of(options.given, "--preset", options.sweeps ? "quick" : "full");
  // --dry-run and --sweep exclude each other.
  if (options.dry_run) return publish_dry_run(options.out, options.files, preset);
  return publish(options.out, preset, options.sweeps);
}

}  // namespace

Action report_command(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  auto* write =
      app.add_flag("--write", options->write,
                   "rewrite every generated part of README.md, lessons/*/README.md, kernels/*/README.md and docs/*.md");
  app.add_flag("--check", options->check, "name each file whose generated part is stale; exit code 1 if there is one")
      ->excludes(write);
  app.add_option("--out", options->out, "folder with the results; default out/<machine>")->type_name("DIR");
  return [options] { return report(*options); };
}

Action publish_command(CLI::App& app) {
  const auto options = std::make_shared<PublishOptions>();
  app.add_option("--out", options->out, "folder with the results; default out/<machine>, with --bench out/bench")
      ->type_name("DIR");
  Flag preset_flag = lesson_flag("--preset");
  preset_flag.choices = {"check", "smoke", "quick", "full"};  // a build run has nothing to publish
  preset_flag.help =
      "the preset that the results must have been measured with: smoke, quick or full (the default); of a dry GPU "
      "check";
  auto* preset = add_flag(app, preset_flag, options->given);
  app.add_flag("--bench", options->bench, "the reports of ./tenfold bench instead of the lessons' results")
      ->excludes(preset);
  app.add_flag("--sweep", options->sweeps,
               "the sweeps in out/<machine>/sweeps instead, of 2 to 6 points each; their preset is quick, unless "
               "--preset says otherwise")
      ->excludes("--bench");
  auto* dry_run =
      app.add_flag(
             "--dry-run", options->dry_run,
             "copy nothing: write the file that would be sent, print what is in it, and test this run's judgement")
          ->excludes("--bench")
          ->excludes("--sweep");
  app.add_option("files", options->files, "with --dry-run: only these results, e.g. out/MACHINE/30_*.json")
      ->needs(dry_run)
      ->excludes("--out")
      ->type_name("");
  app.add_option("--received", options->received, "check a file that somebody sent, and copy its results")
      ->type_name("FILE")
      ->excludes("--dry-run")
      ->excludes("--bench")
      ->excludes("--sweep")
      ->excludes("--out")
      ->excludes(preset);
  return [options] { return publish_chosen(*options); };
}

Action reproduce_command(CLI::App& app) {
  const auto results = std::make_shared<std::string>();
  const auto out = std::make_shared<std::string>();
  app.add_option("results", *results, "a result file or a folder of them, e.g. results/h100-80gb-hbm3")
      ->required()
      ->type_name("");
  app.add_option("--out", *out, "folder for your results; default out/<machine>/reproduced")->type_name("DIR");
  return [results, out] { return reproduce(*results, *out); };
}

Action compare_command(CLI::App& app) {
  struct CompareOptions {
    std::vector<std::string> paths;
    bool json = false;
    GivenFlags given;
  };
  const auto options = std::make_shared<CompareOptions>();
  app.add_option("results", options->paths, "two or more; with --across also one, whose rows are compared")
      ->required()
      ->type_name("");
  app.add_flag("--json", options->json, "as a JSON object");
  add_flag(app,
           {.name = "--across",
            .value = "PART",
            .help = "join rows that differ in this one part: ranks, threads, device, size or dtype",
            .choices = {kAcross.begin(), kAcross.end()}},
           options->given);
  return [options] { return compare(options->paths, options->json, value_of(options->given, "--across", "")); };
}

Action score_command(CLI::App& app) {
  const auto dry = std::make_shared<std::string>(), measured = std::make_shared<std::string>();
  app.add_option("dry", *dry, "what a dry GPU said, e.g. results/dry-h100")->required()->type_name("");
  app.add_option("measured", *measured, "what the card measured, e.g. out/h100-80gb-hbm3")->required()->type_name("");
  return [dry, measured] { return score(*dry, *measured); };
}

Action claims_command(CLI::App& app) {
  const auto options = std::make_shared<ClaimsOptions>();
  app.add_option("--lesson", options->lesson, "only the claims that this lesson tests, e.g. 30")->type_name("LESSON");
  app.add_option("--machine", options->machine, "only this machine's verdicts, e.g. 2x-intel-xeon")->type_name("ID");
  app.add_option("results", options->results, "a result file or a folder of them; default results/")->type_name("");
  return [options] { return claims(*options); };
}

}  // namespace tenfold::cli
