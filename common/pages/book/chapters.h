#pragma once
// The chapters of the book, which lessons' numbers choose.

#include <string>
#include <vector>

#include "common/pages/book/generated.h"

namespace tenfold {

/// "Memory" of "30_gradient_accumulation"; "Other lessons" where no chapter has the number.
std::string chapter_of(const std::string& lesson);

/// Whether a chapter has the two-digit number of a lesson, "30".
bool has_chapter(const std::string& number);

/// The lessons in their order, those of one chapter together.
std::vector<std::vector<LessonEntry>> by_chapter(const std::vector<LessonEntry>& lessons);

/// Of each chapter the lesson that stands for it: its first on the tour that compares something, else its first that
/// does, else its first.
std::vector<LessonEntry> headline_lessons(const std::vector<LessonEntry>& lessons);

}  // namespace tenfold
