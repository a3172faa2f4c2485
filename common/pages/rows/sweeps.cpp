#include "common/pages/rows/sweeps.h"

#include <algorithm>
#include <utility>

#include "common/base/files.h"
#include "common/base/text.h"

namespace tenfold {

namespace fs = std::filesystem;

std::string sweep_file(const std::string& lesson, const std::string& setting, const std::string& case_name) {
  return number_of_name(lesson) + "_" + file_part(setting) + "_" + file_part(case_name) + ".json";
}

std::string swept_case(const CaseResult& point) {
  return point.name.substr(0, point.name.rfind(" " + point.sweep.value().setting + "="));
}

std::vector<Result> sweeps_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Result> sweeps;
  sweeps.reserve(files.size());
  for (const fs::path& file : files) {
    sweeps.push_back(read_result(file));
    for (const CaseResult& c : sweeps.back().cases) {
      if (!c.sweep) throw FileError(file.string() + ": case '" + c.name + "' is no point of a sweep");
    }
  }
  return sweeps;
}

std::vector<Result> published_sweeps(const fs::path& root, const std::string& machine) {
  return sweeps_in(root / "results" / machine / "sweeps");
}

std::optional<double> number_of(const SettingValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::vector<const CaseResult*> points_of(const Result& sweep) {
  std::vector<const CaseResult*> points;
  for (const CaseResult& c : sweep.cases) points.push_back(&c);
  // Equal ones in their order in the sweep.
  const auto key = [](const CaseResult* c) { return std::pair(number_of(c->sweep.value().value), c); };
  std::sort(points.begin(), points.end(), [&](const CaseResult* a, const CaseResult* b) { return key(a) < key(b); });
  return points;
}

}  // namespace tenfold
