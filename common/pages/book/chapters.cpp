#include "common/pages/book/chapters.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/text.h"

namespace tenfold {
namespace {

/// The title of the chapter that has a lesson's number; null where none has.
const char* chapter_with(const std::string& number) {
  constexpr std::array<std::pair<char, const char*>, 8> kChapters = {{{'0', "Measuring"},
                                                                      {'1', "Data"},
                                                                      {'2', "Compute"},
                                                                      {'3', "Memory"},
                                                                      {'4', "Kernels"},
                                                                      {'5', "Many devices"},
                                                                      {'6', "Training practice"},
                                                                      {'9', "Everything together"}}};
  const auto* const chapter =
      std::ranges::find_if(kChapters, [&](const auto& of) { return number.size() >= 2 && number.front() == of.first; });
  return chapter == kChapters.end() ? nullptr : chapter->second;
}

}  // namespace

std::string chapter_of(const std::string& lesson) {
  const char* const chapter = chapter_with(number_of_name(lesson));
  return chapter == nullptr ? "Other lessons" : chapter;
}

bool has_chapter(const std::string& number) { return chapter_with(number) != nullptr; }

std::vector<std::vector<LessonEntry>> by_chapter(const std::vector<LessonEntry>& lessons) {
  std::vector<std::vector<LessonEntry>> chapters;
  for (const LessonEntry& lesson : lessons) {
    if (chapters.empty() || chapter_of(chapters.back().front().name) != chapter_of(lesson.name))
      chapters.emplace_back();
    chapters.back().push_back(lesson);
  }
  return chapters;
}

std::vector<LessonEntry> headline_lessons(const std::vector<LessonEntry>& lessons) {
  std::vector<LessonEntry> chosen;
  for (const std::vector<LessonEntry>& chapter : by_chapter(lessons)) {
    const auto first = [&](const auto& is_wanted) { return std::ranges::find_if(chapter, is_wanted); };
    auto lesson = first([](const LessonEntry& of) { return of.core && !of.survey; });
    if (lesson == chapter.end()) lesson = first([](const LessonEntry& of) { return !of.survey; });
    chosen.push_back(lesson == chapter.end() ? chapter.front() : *lesson);
  }
  return chosen;
}

}  // namespace tenfold
