#pragma once
// An exercise as its folder holds it: the task, how hard it is, and the hint for who is stuck.

#include <filesystem>
#include <string>
#include <vector>

namespace tenfold::cli {

/// What an exercise's README.md says.
struct Task {
  std::string text;        ///< for a terminal: no heading's mark, nothing that is folded
  std::string title;       ///< the heading, without the number
  std::string difficulty;  ///< easy, medium or hard; empty when it does not say
  std::string minutes;     ///< empty when it does not say
  std::string hint;        ///< the second one, for who asks; empty when there is none
};

Task task_of(const std::string& readme);

struct Exercise {
  std::string name;             ///< "30_gradient_accumulation", "40.1_map"
  std::filesystem::path given;  ///< README.md, starter.h, solution.h, check.cpp

  std::string number() const { return name.substr(0, name.find('_')); }
  Task task() const;
};

/// By number. Found in the sources, lessons/NAME/exercise and kernels/warm_ups/NAME: one can be done before its lesson
/// is built.
std::vector<Exercise> exercises();

/// By name, number or a part of the name. Throws UsageError for none or several.
Exercise resolve_exercise(const std::string& word);

}  // namespace tenfold::cli
