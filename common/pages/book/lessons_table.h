#pragma once
// Tables of lessons: what each asks, and what was published.

#include <filesystem>
#include <string>
#include <vector>

#include "common/pages/book/generated.h"

namespace tenfold {

/// A row for each lesson: number, title linked relative to `page`, and question.
std::string lessons_markdown(const std::vector<LessonEntry>& lessons, const std::filesystem::path& page,
                             const std::filesystem::path& root);

/// All lessons, a table under a heading for each chapter; with the headline's verdict on a CPU, of `references` where
/// there is one, and, once one is published, on a GPU.
std::string chapters_markdown(const std::vector<LessonEntry>& lessons, const std::vector<Result>& published,
                              const std::vector<Result>& references, const std::filesystem::path& page,
                              const std::filesystem::path& root);

}  // namespace tenfold
