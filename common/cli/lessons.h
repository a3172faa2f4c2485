#pragma once
// The lessons that are built, as they describe themselves.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tenfold::cli {

struct Lesson {
  std::string name;  ///< folder and program, e.g. "30_gradient_accumulation"
  std::string title, question, workload, baseline;
  std::vector<std::string> techniques, cases, settings;
  int ranks = 1;
  bool foundation = false;
  bool core = true;  ///< on the tour's core path, lessons/core_path.txt; where there is no such file, every lesson is
  std::filesystem::path binary;

  std::string number() const { return name.substr(0, 2); }
};

/// Every <build>/lessons/NAME with its NAME.describe.json, by name. Throws UsageError on a damaged description.
std::vector<Lesson> find_lessons();

/// The lesson meant by a full name, a number ("30") or an unambiguous part of a name. Throws UsageError with the nearest
/// name when there is none, and with the choices when there are several.
const Lesson& resolve_lesson(const std::vector<Lesson>& lessons, const std::string& word);

}  // namespace tenfold::cli
