#pragma once
// A lesson on a GPU that is not there (--device dry:CARD): memory at the card's size, where nothing is computed, and
// agreement at size cpu, where the CPU computes what the card would, in each order of streams that can differ.

#include <filesystem>
#include <string>

#include "common/cli/run_lesson.h"

namespace tenfold::cli {

/// As run_lesson(). Throws UsageError.
LessonEnd run_dry_lesson(const DescribedLesson& lesson, const LessonStart& start, Display& display);

/// The folder for results of this card below `out`; `chosen` when there is one.
std::filesystem::path dry_out_folder(const std::string& card, const std::string& chosen);

}  // namespace tenfold::cli
