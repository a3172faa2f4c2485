// publish --dry-run and --received: the one file in which results of a machine travel, made and taken in. Nothing here
// opens a connection; docs/sending_results.md says how the file is handed over.

#include <algorithm>
#include <iostream>
#include <set>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/paths.h"
#include "common/cli/publish.h"
#include "common/cli/this_machine.h"
#include "common/machine/fingerprint.h"
#include "common/result/judge.h"
#include "common/result/submission.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kMostBytes = 25e6;  // what an issue's form takes

/// As measured with the results, else as the probe keeps them.
std::map<std::string, double> ceilings_of(const std::vector<NamedResult>& results) {
  for (const auto& [path, result] : results) {
    if (!result.machine.ceilings.empty()) return result.machine.ceilings;
  }
  const std::string& id = results.front().second.machine.id;
  std::map<std::string, double> ceilings = read_ceilings(id);
  if (ceilings.empty())
    throw UsageError("what machine " + id + " can do at most was never measured; measure with: ./tenfold probe");
  return ceilings;
}

std::string clocks_text(const std::vector<Result>& results) {
  std::set<std::string> clocks;
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      if (rounds_of(c) > 0) clocks.insert(to_string(c.clock));
    }
  }
  std::string text = "judged by: " + (clocks.empty() ? "no clock" : joined({clocks.begin(), clocks.end()}) + " time");
  for (const Gpu& gpu : results.front().machine.gpus) {
    for (const auto& [name, mhz] : gpu.clocks) text += ", " + name + " " + human_number(mhz) + " MHz";
  }
  return text;
}

std::string self_test_text(const SelfTest& test) {
  const auto of_all = [&](int count) { return std::to_string(count) + " of " + std::to_string(test.cases()); };
  return "identical code judged SAME in " + of_all(test.same()) + " timed cases, told apart in " +
         std::to_string(test.told_apart()) + "; 5 % planted, and found, in " + of_all(test.found());
}

}  // namespace

int publish_dry_run(const std::string& out, const std::vector<std::string>& files, const std::string& preset) {
  const std::vector<NamedResult> measured = publishable_results(out, preset, false, "nothing was written", files);
  const std::map<std::string, double> ceilings = ceilings_of(measured);
  Submission submission{
      .commit = measured.front().second.commit, .preset = preset, .machine = measured.front().second.machine.id};
  std::vector<std::string> left_out, lessons;
  for (auto [path, result] : measured) {
    warn_of_few_rounds(result);
    if (result.machine.ceilings.empty()) result.machine.ceilings = ceilings;
    submission.results.push_back(sendable(result, &left_out));
    lessons.push_back(result.lesson.substr(0, 2));
  }
  submission.self_test = self_test(submission.results);
  const std::string text = format_submission(submission);
  const fs::path file = source_folder() / "out" / "send" / (submission.machine + ".json");
  require_writable_folder(file.parent_path());
  fs::create_directories(file.parent_path());
  write_atomically(file, text);

  const Machine& machine = submission.results.front().machine;
  std::sort(left_out.begin(), left_out.end());
  std::cout << "machine     " << submission.machine << ": " << machine.cpu << ", " << machine.cores
            << (machine.cores == 1 ? " core" : " cores") << ", " << human_bytes(static_cast<double>(machine.ram_bytes))
            << "; " << machine.os << "\n"
            << "ceilings    " << machine.ceilings.size() << " measured by ./tenfold probe\n"
            << "clocks      " << clocks_text(submission.results) << "\n"
            << "results     " << lessons.size() << (lessons.size() == 1 ? " lesson" : " lessons") << ", preset "
            << preset << ", commit " << submission.commit.substr(0, 10) << ": " << joined(lessons, " ") << "\n"
            << "left out    " << (left_out.empty() ? "nothing" : joined(left_out, "; ")) << "\n"
            << "self-test   " << self_test_text(submission.self_test) << "\n"
            << "Nothing was sent. All that would be is in " << shown(file) << " ("
            << human_bytes(static_cast<double>(text.size())) << "): read it, then docs/sending_results.md.\n";
  if (static_cast<double>(text.size()) > kMostBytes)
    std::cerr << "tenfold: warning: an issue's form takes 25 MB; compress the file, or send a pull request\n";
  const std::string objection = submission.self_test.objection();
  if (objection.empty()) return 0;
  std::cerr << "tenfold: do not send this: " << objection
            << "; close other programs and measure again, with --preset full for longer\n";
  return kInvalid;
}

int publish_received(const std::string& file) {
  const Submission submission = parse_submission(read_text(file), file);
  if (const std::string objection = submission.self_test.objection(); !objection.empty())
    throw UsageError(file + ": " + objection + "; nothing was published");
  std::vector<NamedResult> results;
  for (const Result& result : submission.results) results.emplace_back(result.lesson + ".json", result);
  require_publishable(results, submission.preset, false, "nothing was published");
  const Result& first = submission.results.front();
  if (first.commit != submission.commit || first.machine.id != submission.machine)
    throw UsageError(file + ": its results are of commit " + first.commit.substr(0, 10) + " and machine " +
                     first.machine.id + ", and it says otherwise; nothing was published");
  if (output_of({"git", "-C", source_folder().string(), "rev-parse", "--verify", "--quiet", first.commit + "^{commit}"})
          .empty())
    throw UsageError(file + ": is of commit " + first.commit.substr(0, 10) +
                     ", which this repository does not have; nothing was published");
  const std::string id = published_id(first.machine);
  std::vector<std::pair<fs::path, std::string>> files;
  for (const Result& result : submission.results) {
    warn_of_few_rounds(result);
    Result judged = result;  // as this tree judges the rounds, whatever the file says
    judged.machine.id = id;
    for (CaseResult& c : judged.cases) {
      if (c.kind != "survey") judge(c, judged.machine.cores);
    }
    files.emplace_back(result.lesson + ".json", format_result(judged));
  }
  std::cout << self_test_text(submission.self_test) << "\n";
  copy_to_results(id, submission.commit, files, "result");
  return 0;
}

}  // namespace tenfold::cli
