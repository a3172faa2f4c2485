#include "common/pages/rows/references.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/result/code_hash.h"

namespace tenfold {

namespace fs = std::filesystem;

std::vector<std::string> reference_machines(const fs::path& root) {
  const fs::path file = root / "results" / "REFERENCE";
  std::vector<std::string> machines;
  if (!fs::exists(file)) return machines;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (!trimmed(line).empty()) machines.push_back(trimmed(line));
  }
  return machines;
}

std::vector<Result> reference_results(const fs::path& root, const std::vector<Result>& published) {
  const std::vector<std::string> machines = reference_machines(root);
  std::set<std::string> lessons;
  for (const Result& result : published) lessons.insert(result.lesson);
  std::vector<Result> references;
  for (const std::string& lesson : lessons) {
    std::vector<const Result*> in_order;
    for (const std::string& machine : machines) {
      for (const Result& result : published) {
        if (result.lesson == lesson && result.machine.id == machine) in_order.push_back(&result);
      }
    }
    if (const Result* reference = reference_of(in_order, code_hash(root / "lessons" / lesson)))
      references.push_back(*reference);
  }
  return references;
}

const Result* reference_of(const std::vector<const Result*>& in_order, const std::string& hash_now) {
  if (in_order.empty()) return nullptr;
  const auto now = std::find_if(in_order.begin(), in_order.end(),
                                [&](const Result* result) { return result->code_hash == hash_now; });
  return now == in_order.end() ? in_order.front() : *now;
}

const Result* result_of(const std::vector<Result>& results, const std::string& lesson) {
  const auto found =
      std::find_if(results.begin(), results.end(), [&](const Result& result) { return result.lesson == lesson; });
  return found == results.end() ? nullptr : &*found;
}

}  // namespace tenfold
