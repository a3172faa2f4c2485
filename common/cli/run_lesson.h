#pragma once
// Starting one lesson: once for each number of ranks and each environment that its parts need, alone or under torchrun;
// and saying in words how it ended.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/base/flags.h"
#include "common/cli/display.h"
#include "common/cli/lessons.h"
#include "common/result/result.h"

namespace tenfold::cli {

struct LessonEnd {
  int code = 0;
  std::string problem;  ///< one sentence unless it ended as a lesson should (0, 77, 130)
  double seconds = 0;
};

struct LessonStart {
  GivenFlags flags;                                     ///< handed on unchanged
  std::filesystem::path output_file;                    ///< where its table goes; standard output when empty
  double from = 0, to = 1;                              ///< the part of the whole progress that this lesson is
  std::string label;                                    ///< before the lesson's own words in the progress line
  std::map<std::string, std::string> environment = {};  ///< of its program, besides the own one
  bool errors_to_file = false;                          ///< what it says on standard error goes into output_file too
};

/// The exit code of lessons, or of a lesson's starts, that ended so: interrupted, else the worst failure, else 0 if
/// anything ran.
int combined(const std::vector<int>& codes);

/// Runs the lesson to its end and shows its progress. Cases of several ranks are started by the environment's torchrun.
/// Within a launcher (torchrun, srun, mpirun) the program starts once, as this rank, and runs what fits. The file of
/// --json is one, whatever the number of starts. Throws UsageError when it cannot be written.
LessonEnd run_lesson(const DescribedLesson& lesson, const LessonStart& start, Display& display);

/// What an exit code of a lesson means; empty for 0.
std::string meaning_of(int code);

}  // namespace tenfold::cli
