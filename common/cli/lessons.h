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
  /// On the tour's core path. True unless the lesson says "core": false of itself, so a new folder joins the tour with no
  /// other edit and a long lesson leaves it by its own word; `tour --all` runs both.
  bool core = true;
  std::filesystem::path binary;

  std::string number() const { return name.substr(0, 2); }
};

/// Every <build>/lessons/NAME with its NAME.describe.json, by name. Throws UsageError on a damaged description.
std::vector<Lesson> find_lessons();

/// The lesson meant by a full name, a number ("30") or an unambiguous part of a name. Throws UsageError with the nearest
/// name when there is none, and with the choices when there are several.
const Lesson& resolve_lesson(const std::vector<Lesson>& lessons, const std::string& word);

}  // namespace tenfold::cli
