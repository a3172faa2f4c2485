// publish: results that anyone can trace to committed code, copied to results/. All of them or none.

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include <tenfold/code_hash.h>
#include <tenfold/humanize.h>

#include "commands.h"
#include "paths.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

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

/// Why a result may not be published; empty when it may.
std::string objection(const Result& result, const Result& first, const fs::path& lesson) {
  if (result.dirty) return "was measured with uncommitted changes; commit them and measure again";
  if (result.commit.empty()) return "does not know its commit; measure inside a git checkout";
  if (result.commit != first.commit)
    return "is from commit " + result.commit.substr(0, 10) + ", " + first.lesson + " from " + first.commit.substr(0, 10) +
           "; measure both again";
  if (result.machine.id != first.machine.id)
    return "is from machine " + result.machine.id + ", " + first.lesson + " from " + first.machine.id;
  if (result.machine.id.empty() || result.machine.id.find('/') != std::string::npos || result.machine.id.starts_with("."))
    return "has '" + result.machine.id + "' as machine.id, which is no folder name";
  const std::string now = code_hash(lesson);
  if (now.empty()) return "is of a lesson that this tree does not have";
  const std::optional<int> version = version_of(result.lesson);
  if (!version) return "is of a lesson that is not built here, so its version cannot be checked; build with: ./tenfold setup";
  if (result.lesson_version != *version)
    return "is of version " + std::to_string(result.lesson_version) + " of the lesson, which is now version " + std::to_string(*version) +
           "; measure again";
  if (result.code_hash != now) return "was measured with other code of the lesson than this tree's; measure again";
  return "";
}

}  // namespace

int publish(const std::string& out_option) {
  const fs::path out = out_folder(out_option);
  if (!fs::is_directory(out)) throw UsageError(shown(out) + ": there are no results yet; measure with: tenfold tour");
  std::vector<std::pair<fs::path, Result>> results;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json") results.emplace_back(entry.path(), read_result(entry.path()));
  }
  if (results.empty()) throw UsageError(shown(out) + ": holds no result file; measure with: tenfold tour");
  std::sort(results.begin(), results.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const Result& first = results.front().second;
  for (const auto& [path, result] : results) {
    if (path.filename() != result.lesson + ".json")
      throw UsageError(shown(path) + ": holds lesson " + result.lesson + "; nothing was published");
    const std::string problem = objection(result, first, source_folder() / "lessons" / result.lesson);
    if (!problem.empty()) throw UsageError(shown(path) + ": " + problem + "; nothing was published");
  }

  // A whole new folder beside the old one, then two renames: a reader never sees half of either.
  const fs::path target = source_folder() / "results" / first.machine.id;
  const fs::path next = target.string() + ".next", previous = target.string() + ".previous";
  fs::remove_all(next);
  fs::remove_all(previous);
  try {
    if (fs::exists(target)) fs::copy(target, next, fs::copy_options::recursive);  // lessons not measured this time stay
    for (const auto& [path, result] : results) write_atomically(next / path.filename(), read_text(path));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(next, ignored);
    throw;
  }
  if (fs::exists(target)) fs::rename(target, previous);
  fs::rename(next, target);
  fs::remove_all(previous);
  std::cout << results.size() << (results.size() == 1 ? " result" : " results") << " of commit " << first.commit.substr(0, 10)
            << " copied to " << shown(target) << "; rewrite the tables with: tenfold report --write\n";
  return 0;
}

}  // namespace tenfold::cli
