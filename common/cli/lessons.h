#pragma once
// The lessons that are built, as they describe themselves.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/base/rank_numbers.h"
#include "common/base/text.h"

namespace tenfold::cli {

/// A case, a training or a survey, and where it runs.
struct LessonPart {
  std::string name;
  RankNumbers ranks = {};
  std::map<std::string, std::string> environment = {};
  bool survey = false;
  std::vector<std::string> variants = {};  ///< what --only may name of it
};

/// What a built lesson says of itself; tenfold::Lesson, which its program has, needs LibTorch.
struct DescribedLesson {
  std::string name;  ///< folder and program, e.g. "30_gradient_accumulation"
  std::string title, question, workload, baseline;
  std::vector<std::string> techniques;
  std::string description;  ///< all that the program says of itself, JSON
  std::vector<LessonPart> cases, trainings, surveys;
  bool core = false;  ///< on the tour's core path
  std::filesystem::path binary;

  std::string number() const { return number_of_name(name); }
  /// In the order in which a program runs them.
  std::vector<LessonPart> parts() const;
  /// Compares nothing.
  bool surveys_only() const { return cases.empty() && trainings.empty(); }
};

/// Every <build>/lessons/NAME with its NAME.describe.json, by name. Throws UsageError on a damaged description.
std::vector<DescribedLesson> find_lessons();

/// Names of the lessons whose source is here and which are not built, by name.
std::vector<std::string> unbuilt_lessons();

/// The lesson meant by a full name, a number ("30") or an unambiguous part of a name. Throws UsageError with the
/// nearest name when there is none, and with the choices when there are several.
const DescribedLesson& resolve_lesson(const std::vector<DescribedLesson>& lessons, const std::string& word);

}  // namespace tenfold::cli
