#pragma once
// Starting one lesson as a process, on one rank or under torchrun, and saying in words how it ended.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "display.h"
#include "lessons.h"

namespace tenfold::cli {

struct LessonEnd {
  int code = 0;
  std::string problem;  ///< one sentence unless it ended as a lesson should (0, 77, 130)
  double seconds = 0;
};

struct LessonStart {
  std::vector<std::string> flags;     ///< handed on unchanged
  std::filesystem::path output_file;  ///< where its table goes; standard output when empty
  double from = 0, to = 1;            ///< the part of the whole progress that this lesson is
  std::string label;                  ///< before the lesson's own words in the progress line
  bool errors_to_file = false;        ///< what it says on standard error goes into output_file too
};

/// Runs the lesson to its end and shows its progress. A lesson of several ranks is started by the environment's torchrun,
/// unless a launcher has set RANK already.
LessonEnd run_lesson(const Lesson& lesson, const LessonStart& start, Display& display);

/// What an exit code of a lesson means; empty for 0.
std::string meaning_of(int code);

}  // namespace tenfold::cli
