#pragma once
// A lesson in JSON, for the driver, `list --json` and the pages.

#include <string>

#include "common/harness/lesson.h"

namespace tenfold {

/// Title, question, settings; cases, trainings and surveys, each with what all of them have and its kind's own.
std::string describe(const Lesson& lesson, const std::string& name);

}  // namespace tenfold
