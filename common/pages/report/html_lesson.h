#pragma once
// A lesson's part of the report.

#include <string>

#include "common/result/result.h"

namespace tenfold {

/// Heading with an anchor of the lesson's name, then tables and figures of each case.
std::string lesson_section(const Result& result);

}  // namespace tenfold
