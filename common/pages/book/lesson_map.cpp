#include "common/pages/book/lesson_map.h"

#include <regex>
#include <stdexcept>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/links.h"
#include "common/pages/rows/markdown_table.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// From "Before this: " to the empty line, on one line.
std::string paragraph(const std::string& text) {
  const std::string begins = "\nBefore this: ";
  const size_t begin = text.find(begins);
  if (begin == std::string::npos) throw std::invalid_argument("has no line 'Before this: ...'");
  const size_t from = begin + begins.size();
  return one_line(text.substr(from, text.find("\n\n", from) - from));
}

std::string found(const std::string& text, const char* pattern, const char* example) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(pattern)))
    throw std::invalid_argument(std::string("the line 'Before this: ...' does not say '") + example + "'");
  return match[1];
}

}  // namespace

Preparation preparation_of(const std::string& page_text) {
  const std::string text = paragraph(page_text);
  Preparation preparation;
  preparation.reading = found(text, R"((\d+ minutes?) to read)", "10 minutes to read");
  preparation.running = found(text, R"(`\./tenfold run \d\d` takes ([a-z0-9 ]*(?:minutes?|seconds?)(?: and a half)?))",
                              "`./tenfold run 30` takes half a minute");
  preparation.difficulty = found(text, R"(Difficulty: (easy|medium|hard)\.)", "Difficulty: easy.");
  // Only what stands before the first sentence ends; later ones may link to other things.
  const std::string before = found(text, R"(^(none|\[.*?\]\([^)]*\)(?:(?:, | and )\[.*?\]\([^)]*\))*)\.)", "none.");
  const std::regex link(R"(\[[^\]]*\]\([^)]*\))");
  for (std::sregex_iterator at(before.begin(), before.end(), link), end; at != end; ++at)
    preparation.before.push_back(at->str());
  return preparation;
}

std::string lesson_map_markdown(const std::vector<LessonEntry>& lessons, const fs::path& page, const fs::path& root) {
  std::vector<std::vector<std::string>> rows = {
      {"", "lesson", "before it", "to read", "to run", "difficulty", "in `tour`"}};
  for (const LessonEntry& lesson : lessons) {
    const fs::path lesson_page = root / "lessons" / lesson.name / "README.md";
    Preparation preparation;
    try {
      preparation = preparation_of(read_text(lesson_page));
    } catch (const std::invalid_argument& error) {
      throw FileError(lesson_page.string() + ": " + error.what());
    }
    std::vector<std::string> before;
    for (const std::string& link : preparation.before) before.push_back(relinked(link, lesson_page, page));
    const std::string path = lesson_page.lexically_relative(page.parent_path()).generic_string();
    rows.push_back({number_of_name(lesson.name), "[" + markdown_cell(lesson.title) + "](" + path + ")",
                    before.empty() ? "-" : joined(before, ", "), preparation.reading, preparation.running,
                    preparation.difficulty, lesson.core ? "yes" : ""});
  }
  return rows.size() > 1 ? markdown_table(rows) : "No lesson is built.\n";
}

}  // namespace tenfold
