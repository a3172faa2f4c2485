// publish: results and benchmark reports that anyone can trace to committed code, copied to results/. All of them or
// none.

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/left_overs.h"
#include "common/cli/paths.h"
#include "common/cli/publish.h"
#include "common/cli/result_folders.h"
#include "common/cli/this_machine.h"
#include "common/machine/hardware.h"
#include "common/pages/book/bench_report.h"
#include "common/pages/rows/sweeps.h"
#include "common/result/code_hash.h"
#include "common/result/judge.h"
#include "common/result/seal.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSweepPoints = 6;  // of a curve on a page, each of which is measured for as long as a case

/// The version that a lesson has by its own description; none when it is not built. Throws UsageError on a damaged one.
std::optional<int> version_of(const std::string& lesson) {
  const fs::path file = build_folder() / "lessons" / (lesson + ".describe.json");
  if (!fs::exists(file)) return std::nullopt;
  try {
    return nlohmann::json::parse(read_text(file)).at("version").get<int>();
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(shown(file) + ": " + one_line(error.what()) + "; build again with: ./tenfold setup");
  }
}

/// Where something was measured, and with which code.
struct Origin {
  std::string name, machine, hardware, commit;
  bool dirty = false;
};

/// Why what comes from there may not be published beside the first; empty when it may.
std::string objection(const Origin& origin, const Origin& first) {
  if (origin.dirty)
    return "was measured with uncommitted changes, or by a program older than its sources; commit, and measure again";
  if (origin.commit.empty()) return "does not know its commit; measure inside a git checkout";
  if (origin.commit != first.commit)
    return "is from commit " + origin.commit.substr(0, 10) + ", " + first.name + " from " + first.commit.substr(0, 10) +
           "; measure both again";
  if (origin.machine != first.machine)
    return "is from machine " + origin.machine + ", " + first.name + " from " + first.machine;
  if (origin.hardware != first.hardware)
    return "is from another machine called " + origin.machine + " (" + origin.hardware + ") than " + first.name + " (" +
           first.hardware + ")";
  if (origin.machine.empty() || origin.machine.find('/') != std::string::npos || origin.machine.starts_with("."))
    return "has '" + origin.machine + "' as machine.id, which is no folder name";
  return "";
}

/// `first`: whose memory a kernel may have given a little more or less of.
Origin origin_of(const Result& result, const Result& first) {
  const bool same = is_dry(result.machine) || same_hardware(result.machine, first.machine);
  return {result.lesson, result.machine.id, hardware_text(same ? first.machine : result.machine), result.commit,
          result.dirty};
}
Origin origin_of(const BenchReport& report) {
  return {report.name, report.machine, report.hardware, report.commit, report.dirty};
}

/// Why a result may not be published; empty when it may.
std::string objection(const Result& result, const Result& first, const fs::path& lesson) {
  if (std::string problem = objection(origin_of(result, first), origin_of(first, first)); !problem.empty())
    return problem;
  const std::string now = code_hash(lesson);
  if (now.empty()) return "is of a lesson that this tree does not have";
  const std::optional<int> version = version_of(result.lesson);
  if (!version)
    return "is of a lesson that is not built here, so its version cannot be checked; build with: ./tenfold setup";
  if (result.lesson_version != *version)
    return "is of version " + std::to_string(result.lesson_version) + " of the lesson, which is now version " +
           std::to_string(*version) + "; measure again";
  if (result.code_hash != now) return "was measured with other code of the lesson than this tree's; measure again";
  return "";
}

/// Why a result is not one of this preset; empty when it is.
std::string objection_to_preset(const Result& result, const std::string& preset) {
  if (preset == "check" && !is_dry(result.machine)) return "has no times with --preset check, and is of no dry GPU";
  for (const CaseResult& c : result.cases) {
    if (c.preset == preset) continue;
    return "was measured with --preset " + c.preset + ", and " + preset +
           " is wanted; measure again with: ./tenfold run " + result.lesson + " --preset " + preset +
           ", or publish with --preset " + c.preset;
  }
  return "";
}

/// Why a result does not belong where it lies, among the lessons' own or among sweeps; empty when it does.
std::string objection_to_place(const Result& result, const std::string& file, bool sweeps) {
  if (!sweeps) {
    if (std::ranges::any_of(result.cases, [](const CaseResult& c) { return c.sweep.has_value(); }))
      return "holds points of a sweep; publish those with --sweep";
    return file == result.lesson + ".json" ? "" : "holds lesson " + result.lesson;
  }
  if (!is_sweep(result))
    return "holds no sweep; measure one with: ./tenfold run " + result.lesson + " --sweep SETTING=A,B,C";
  const std::string& setting = result.cases.front().sweep->setting;
  if (!std::ranges::all_of(result.cases, [&](const CaseResult& c) { return c.sweep->setting == setting; }))
    return "sweeps more than one setting";
  const std::string swept_name = swept_case(result.cases.front());
  if (!std::ranges::all_of(result.cases, [&](const CaseResult& c) { return swept_case(c) == swept_name; }))
    return "sweeps more than one case";
  if (const std::string name = sweep_file(result); file != name) return "holds the sweep " + name;
  if (result.cases.size() < 2 || result.cases.size() > kMostSweepPoints)
    return "has " + std::to_string(result.cases.size()) + (result.cases.size() == 1 ? " point" : " points") +
           ", and a curve has 2 to " + std::to_string(kMostSweepPoints);
  return "";
}

/// Under the machine's published name. Timelines are more than half of a result's text: they are published where the
/// lesson's page draws memory over a step.
Result as_published(const std::string& id, Result result) {
  result.machine.id = id;
  const fs::path page = source_folder() / "lessons" / result.lesson / "README.md";
  const bool drawn = fs::exists(page) && read_text(page).find("tenfold:begin figure memory") != std::string::npos;
  if (drawn && !is_sweep(result)) return result;
  for (CaseResult& c : result.cases) {
    for (VariantResult& variant : c.variants) variant.timeline.reset();
  }
  return result;
}

void put_in_place(const fs::path& folder, const fs::path& target) {
  fs::create_directories(target.parent_path());
  fs::rename(folder, target);
}

/// Two folders change places in one step; false where the file system has no such step.
bool exchange(const fs::path& a, const fs::path& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

void warn_of_few_rounds(const Result& result) {
  for (const CaseResult& c : result.cases) {
    const int seeds = seeds_of(c), rounds = seeds > 0 ? seeds : rounds_of(c);
    if (rounds == 0 || rounds >= kFullRounds) continue;
    std::cerr << one_line("tenfold: warning: " + result.lesson + ", case " + c.name + ": " + std::to_string(rounds) +
                          (seeds > 0 ? " seed" : " round") + (rounds == 1 ? "" : "s") + "; an interval wants " +
                          std::to_string(kFullRounds) + " or more")
              << "\n";
  }
}

void copy_to_results(const std::string& machine, const std::string& commit,
                     const std::vector<std::pair<fs::path, std::string>>& files, const char* kind) {
  // A whole new folder, which takes the old one's place in one step: whoever reads sees the one or the other, and
  // whoever is killed leaves the one or the other. It is made outside of results/, where nothing reads half of it.
  const fs::path target = source_folder() / "results" / machine;
  const fs::path aside = source_folder() / "results.next", next = aside / machine;
  const fs::path previous = next.string() + ".previous";
  if (!fs::exists(target) && fs::exists(previous)) put_in_place(previous, target);  // killed between two renames
  fs::remove_all(aside);
  try {
    if (fs::exists(target)) {
      fs::create_directories(aside);
      fs::copy(target, next, fs::copy_options::recursive);  // what was not measured this time stays
    }
    for (const auto& [name, text] : files) {
      fs::create_directories((next / name).parent_path());
      write_atomically(next / name, text);
    }
    // What is said of a card that is not there, with what was said before and stays.
    if (machine.starts_with(kDryMachine)) write_atomically(next / kSealFile, seal_of(sealed_texts(next)));
    if (!fs::exists(target)) {
      put_in_place(next, target);
    } else if (!exchange(next, target)) {  // a file system that cannot
      fs::rename(target, previous);
      fs::rename(next, target);
    }
  } catch (...) {
    std::error_code ignored;
    if (fs::exists(target)) fs::remove_all(aside, ignored);
    throw;
  }
  fs::remove_all(aside);
  std::cout << files.size() << " " << kind << (files.size() == 1 ? "" : "s") << " of commit " << commit.substr(0, 10)
            << " copied to " << shown(target) << "; rewrite the tables with: ./tenfold report --write\n";
}

namespace {

std::vector<NamedResult> results_of_folder(const std::string& out_option, bool sweeps) {
  const fs::path out = sweeps ? out_folder(out_option) / kSweepsFolder : out_folder(out_option);
  const std::string how = sweeps ? "./tenfold run LESSON --sweep SETTING=A,B,C" : "./tenfold tour";
  if (!fs::is_directory(out))
    throw UsageError(shown(out) + ": there are no " + (sweeps ? "sweeps" : "results") + " yet; measure with: " + how);
  tidy_results(out);
  std::vector<NamedResult> results;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json")
      results.emplace_back(entry.path(), read_result(entry.path()));
  }
  if (results.empty()) throw UsageError(shown(out) + ": holds no result file; measure with: " + how);
  return results;
}

std::vector<NamedResult> results_of_files(const std::vector<std::string>& files) {
  std::vector<NamedResult> results;
  for (const std::string& file : files) {
    const fs::path path = fs::absolute(file);
    if (fs::is_directory(path)) throw UsageError(shown(path) + ": is a folder; name it with --out");
    if (std::ranges::any_of(results, [&](const NamedResult& known) { return known.first == path; }))
      throw UsageError(shown(path) + ": is named twice");
    results.emplace_back(path, read_result(path));
  }
  return results;
}

}  // namespace

std::vector<NamedResult> publishable_results(const std::string& out, const std::string& preset, bool sweeps,
                                             const std::string& outcome, const std::vector<std::string>& files) {
  std::vector<NamedResult> results = files.empty() ? results_of_folder(out, sweeps) : results_of_files(files);
  std::sort(results.begin(), results.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  require_publishable(results, preset, sweeps, outcome);
  return results;
}

void require_publishable(const std::vector<NamedResult>& results, const std::string& preset, bool sweeps,
                         const std::string& outcome) {
  const Result& first = results.front().second;
  for (const auto& [path, result] : results) {
    std::string problem = objection_to_place(result, path.filename().string(), sweeps);
    if (problem.empty()) problem = objection(result, first, source_folder() / "lessons" / result.lesson);
    if (problem.empty()) problem = objection_to_preset(result, preset);
    if (problem.empty() && fs::exists(earlier_of(path)))
      problem = "is of a run that was stopped, and " + earlier_of(path).filename().string() +
                " is what was measured before it; measure again, or give that file this name";
    if (!problem.empty()) throw UsageError(shown(path) + ": " + problem + "; " + outcome);
  }
}

int publish(const std::string& out, const std::string& preset, bool sweeps) {
  const std::vector<NamedResult> results = publishable_results(out, preset, sweeps, "nothing was published");
  const Result& first = results.front().second;
  const std::string id = published_id(first.machine);
  std::vector<std::pair<fs::path, std::string>> files;
  for (const auto& [path, result] : results) {
    warn_of_few_rounds(result);
    files.emplace_back(sweeps ? kSweepsFolder / path.filename() : path.filename(),
                       format_result(as_published(id, result)));
  }
  copy_to_results(id, first.commit, files, sweeps ? "sweep" : "result");
  return 0;
}

int publish_bench(const std::string& out_option) {
  const fs::path out = out_option.empty() ? source_folder() / "out" / kBenchFolder : fs::absolute(out_option);
  if (!fs::is_directory(out))
    throw UsageError(shown(out) + ": there are no reports yet; measure with: ./tenfold bench --peers");
  std::vector<BenchReport> reports;
  for (BenchReport& report : read_bench_reports(out)) {
    if (!report.machine.empty()) reports.push_back(std::move(report));  // others are not made to be compared
  }
  if (reports.empty())
    throw UsageError(shown(out) + ": holds no report that names its machine; measure with: ./tenfold bench --peers");
  const std::string id = published_id(reports.front().machine, reports.front().hardware);
  std::vector<std::pair<fs::path, std::string>> files;
  for (const BenchReport& report : reports) {
    const fs::path path = out / (report.name + ".json");
    std::string problem = objection(origin_of(report), origin_of(reports.front()));
    if (problem.empty() && !std::ranges::all_of(report.ratios, &PeerRatio::covered))
      problem = "has too few rounds for an interval; measure again with: ./tenfold bench --peers";
    if (!problem.empty()) throw UsageError(shown(path) + ": " + problem + "; nothing was published");
    files.emplace_back(kBenchFolder / path.filename(), publishable_bench_report(path, id));
  }
  copy_to_results(id, reports.front().commit, files, "report");
  return 0;
}

}  // namespace tenfold::cli
