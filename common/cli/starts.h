#pragma once
// The starts of a lesson's program that flags ask for, and what they measured as one result.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/base/flags.h"
#include "common/cli/lessons.h"
#include "common/result/result.h"

namespace tenfold::cli {

/// One start of a lesson's program.
struct ProgramStart {
  int ranks = 1;
  std::map<std::string, std::string> environment = {};  ///< besides the own one
  GivenFlags flags;
  size_t parts = 1;  ///< its share of the time
};

/// The starts that these flags ask for: one for each number of ranks and each environment among the chosen parts, in
/// the lesson's order. A single one gets the flags unchanged; of several, each gets its own parts by --case, its number
/// by --ranks where that was given, and no --json. Throws UsageError where --ranks names what no chosen part takes.
std::vector<ProgramStart> starts_of(const DescribedLesson& lesson, const GivenFlags& flags);

/// Throws UsageError for flags that go with one number of ranks only.
void check_several_ranks(const GivenFlags& flags);

/// The case that --sweep varies, as the program chooses it: the first of those chosen that is no survey. Where --case
/// names none of the lesson's, what it names. Throws UsageError within a launcher that may have started a case's ranks
/// or another's.
std::string swept_part(const DescribedLesson& lesson, const GivenFlags& flags);

/// Results of several starts as one: cases in the lesson's order, under the flags that were given.
Result merged(const DescribedLesson& lesson, const std::vector<Result>& results, const GivenFlags& flags);

}  // namespace tenfold::cli
