#pragma once
// The learner's map: what each lesson needs before it, how long it takes and how hard it is, as its own page says.

#include <filesystem>
#include <string>
#include <vector>

#include "common/pages/book/generated.h"

namespace tenfold {

/// What stands in a page's paragraph "Before this: ...".
struct Preparation {
  std::vector<std::string> before;  ///< links as Markdown, relative to the page that was read
  std::string reading, running;     ///< "10 minutes", "half a minute"
  std::string difficulty;           ///< "easy", "medium" or "hard"
};

/// Of the text of a lesson's page:
///
///   Before this: [00](../00_measuring/README.md). 10 minutes to read; `./tenfold run 30` takes half a minute and needs
///   no GPU. Difficulty: easy.
///
/// Throws std::invalid_argument, one line, when a part of it is missing.
Preparation preparation_of(const std::string& page_text);

/// A row for each lesson, with links relative to `page`. Throws FileError that names the lesson's page.
std::string lesson_map_markdown(const std::vector<LessonEntry>& lessons, const std::filesystem::path& page,
                                const std::filesystem::path& root);

}  // namespace tenfold
