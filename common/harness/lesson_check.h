#pragma once
// A lesson's mistakes, found before anything is built.

#include "common/harness/lesson.h"

namespace tenfold {

/// Throws UsageError, in one line, when two variants, parts or settings have one name; an expectation names no
/// technique or is none that can come true; a part or budget changes a setting that is not declared, or to another
/// type; a part's mesh has a size below 1 or one name twice; a case or training has no workload; no case compares a
/// technique; what should run in another process cannot; a training has nothing to compare, or a metric without a
/// margin; or the headline names none. Each would drop something without a word.
void check_lesson(const Lesson& lesson);

}  // namespace tenfold
