#pragma once
// Starting one lesson: once for each number of ranks that its cases need, on one rank or under torchrun; and saying in
// words how it ended.

#include <filesystem>
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
  GivenFlags flags;                   ///< handed on unchanged
  std::filesystem::path output_file;  ///< where its table goes; standard output when empty
  double from = 0, to = 1;            ///< the part of the whole progress that this lesson is
  std::string label;                  ///< before the lesson's own words in the progress line
  bool errors_to_file = false;        ///< what it says on standard error goes into output_file too
};

/// One start of a lesson's program.
struct RanksStart {
  int ranks = 1;
  GivenFlags flags;
  size_t parts = 1;  ///< cases and surveys, its share of the time
};

/// The starts that these flags ask for: one for each number of ranks among the chosen cases, in the lesson's order. A
/// single one gets the flags unchanged; of several, each gets its own cases by --case and no --json.
std::vector<RanksStart> starts_of(const Lesson& lesson, const GivenFlags& flags);

/// The case that --sweep varies, as the program chooses it: the first of those chosen that is no survey. Where --case
/// names none of the lesson's, what it names. Throws UsageError within a launcher that may have started a case's ranks
/// or another's.
std::string swept_part(const Lesson& lesson, const GivenFlags& flags);

/// Results of several starts as one: cases in the lesson's order, under the flags that were given.
Result merged(const Lesson& lesson, const std::vector<Result>& results, const GivenFlags& flags);

/// The exit code of lessons, or of a lesson's starts, that ended so: interrupted, else the worst failure, else 0 if
/// anything ran.
int combined(const std::vector<int>& codes);

/// Runs the lesson to its end and shows its progress. Cases of several ranks are started by the environment's torchrun.
/// Within a launcher (torchrun, srun, mpirun) the program starts once, as this rank, and runs what fits. The file of
/// --json is one, whatever the number of starts. Throws UsageError when it cannot be written.
LessonEnd run_lesson(const Lesson& lesson, const LessonStart& start, Display& display);

/// What an exit code of a lesson means; empty for 0.
std::string meaning_of(int code);

}  // namespace tenfold::cli
