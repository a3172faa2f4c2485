// new-lesson: a lesson's folder copied under a new number and name, without what belongs to the old one.

#include <algorithm>
#include <iostream>
#include <map>
#include <regex>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/numbered_names.h"
#include "common/cli/paths.h"
#include "common/pages/book/chapters.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 40, kLongestWord = 80;

/// Every lesson whose source is here, built or not, by name.
std::vector<std::string> lesson_folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_folder() / "lessons")) {
    if (fs::exists(entry.path() / "CMakeLists.txt")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// What no lesson has, of the ten numbers of this one's chapter.
std::string free_numbers(const std::vector<std::string>& lessons, char chapter) {
  std::vector<std::string> free;
  for (char last = '0'; last <= '9'; ++last) {
    const std::string number{chapter, last};
    if (std::none_of(lessons.begin(), lessons.end(), [&](const auto& name) { return number_of_name(name) == number; }))
      free.push_back(number);
  }
  return free.empty() ? "no number of its chapter is free" : "free in its chapter: " + joined(free);
}

void check_number(const std::string& number, const std::vector<std::string>& lessons) {
  if (!has_chapter(number))
    throw UsageError("no chapter has number " + number + "; docs/adding_a_lesson.md lists them: 00-69 and 90-99");
  for (const std::string& name : lessons) {
    if (number_of_name(name) == number)
      throw UsageError("number " + number + " is taken by " + name + "; " + free_numbers(lessons, number[0]));
  }
}

void check_name(const std::string& name, const std::vector<std::string>& lessons) {
  if (name.size() > kLongestName)
    throw UsageError("a lesson's name has at most " + std::to_string(kLongestName) + " characters, and this one " +
                     std::to_string(name.size()));
  for (const std::string& lesson : lessons) {
    if (lesson.substr(lesson.find('_') + 1) == name)
      throw UsageError("there is a lesson of that name: " + lesson + "; choose another");
  }
}

/// "my_technique" is "My technique".
std::string title_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

struct Rename {
  std::string from, to;  ///< "30_gradient_accumulation", "66_my_technique"
  std::string from_number() const { return number_of_name(from); }
  std::string to_number() const { return number_of_name(to); }
};

/// Any text of the folder: it names itself by its folder, and by its number in commands and in words.
std::string renamed(std::string text, const Rename& rename) {
  text = std::regex_replace(text, std::regex("\\b" + rename.from + "\\b"), rename.to);
  text =
      std::regex_replace(text, std::regex("\\blesson_" + rename.from_number() + "\\b"), "lesson_" + rename.to_number());
  const std::regex own_number("((?:tenfold [a-z-]+|[Ll]esson|[Ee]xercise) )" + rename.from_number() + "(?![0-9.])");
  // Not "$1" and then a digit, which would be group 16.
  return std::regex_replace(text, own_number, "$01" + rename.to_number());
}

/// A source: its headers install under no name, and are the lesson's own; its program is version 1 and no part of the
/// tour, under a title of its own.
std::string source_of(std::string text, const std::string& file, const std::string& number, const std::string& title) {
  if (file.ends_with(".h") && text.starts_with("// installs as ")) {
    text.erase(0, text.find('\n') + 1);
    text = std::regex_replace(text, std::regex("(^|\n)((?:\\}  // )?namespace tenfold)(?= \\{\n|\n|$)"),
                              "$1$2::inline lesson_" + number);
  }
  if (file != "lesson.cpp") return text;
  text = std::regex_replace(text, std::regex(R"(\.version = [0-9]+)"), ".version = 1");
  text = std::regex_replace(text, std::regex(R"(\n *\.core = true,(?=\n))"), "");
  text = std::regex_replace(text, std::regex(R"re(\.title = "[^"]*")re"), ".title = \"" + title + "\"");
  return std::regex_replace(text, std::regex("^(// Lesson [0-9]+ - )[^\n]*"), "$1" + title);
}

/// The page without what was measured: its generated parts are empty but for the question and the code, its numbers are
/// not yet measured.
std::string page_of(const std::string& text, const Rename& rename, const std::string& title) {
  std::string page = "# " + rename.to_number() + " " + title + text.substr(std::min(text.find('\n'), text.size()));
  const std::string begin = "<!-- tenfold:begin ", end = "<!-- tenfold:end -->";
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    const size_t line = page.find('\n', at), close = page.find(end, at);
    if (line == std::string::npos || close == std::string::npos) break;  // `report --check` says what is wrong with it
    const std::string kind = page.substr(at + begin.size(), page.find(' ', at + begin.size()) - at - begin.size());
    if (kind != "question" && kind != "code" && kind != "diff") page.erase(line + 1, close - line - 1);
  }
  const std::string value = "<!-- value ";
  for (size_t at = page.find(value); at != std::string::npos; at = page.find(value, at + 1)) {
    const size_t from = page.find("-->", at), to = page.find("<!-- / -->", at);
    const size_t line = page.rfind('\n', at) + 1;
    if (from == std::string::npos || to == std::string::npos || to < from || page.substr(line, 4) == "    ") continue;
    page.replace(from + 3, to - from - 3, "(not yet measured)");
  }
  return page;
}

/// Each file of the copy with its text, by its path in the folder.
std::map<fs::path, std::string> copied(const fs::path& original, const Rename& rename, const std::string& title) {
  std::map<fs::path, std::string> files;
  for (auto entry = fs::recursive_directory_iterator(original); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory()) {
      // Figures show what was measured; the others are no sources.
      if (name == "figures" || name == "__pycache__" || name.starts_with(".")) entry.disable_recursion_pending();
      continue;
    }
    const fs::path file = entry->path().lexically_relative(original);
    std::string text = renamed(read_text(entry->path()), rename);
    files[file] = file == "README.md" ? page_of(text, rename, title)
                                      : source_of(std::move(text), file.string(), rename.to_number(), title);
  }
  return files;
}

}  // namespace

int new_lesson(const std::string& word, const std::string& from) {
  static const std::regex number_and_name("([0-9]{2})_([a-z][a-z0-9]*(_[a-z0-9]+)*)");
  if (word.empty()) throw UsageError("new-lesson: name the lesson, as in: ./tenfold new-lesson 66_my_technique");
  std::smatch parts;
  if (word.size() > kLongestWord || !std::regex_match(word, parts, number_and_name))
    throw UsageError("'" + one_line(word.substr(0, kLongestWord)) +
                     "' is no lesson's name: two digits, then small letters, digits and single underscores, as in "
                     "66_my_technique");
  const std::string number = parts[1], name = parts[2];
  const std::vector<std::string> lessons = lesson_folders();
  check_number(number, lessons);
  check_name(name, lessons);
  const Rename rename{name_meant("lesson", lessons, from, "./tenfold list"), number + "_" + name};
  const fs::path folder = source_folder() / "lessons" / rename.to;
  if (fs::exists(folder)) throw UsageError(shown(folder) + ": is there already; move it away first");
  const auto files = copied(source_folder() / "lessons" / rename.from, rename, title_of(name));
  try {
    for (const auto& [file, text] : files) {
      if (file == "CMakeLists.txt") continue;
      fs::create_directories((folder / file).parent_path());
      write_atomically(folder / file, text);
    }
    write_atomically(folder / "CMakeLists.txt", files.at("CMakeLists.txt"));  // the last: with it, it is a lesson
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
  std::cout << shown(folder) << ": a copy of " << rename.from << " as version 1, without its figures and its numbers\n"
            << "Next:\n"
            << "  ./tenfold run " << number << " --preset smoke       it trains what lesson " << rename.from_number()
            << " trains\n"
            << "  " << shown(folder / "lesson.cpp") << "   question, settings, variants, cases, expectations\n"
            << "  " << shown(folder / "README.md")
            << "    the page; ./tenfold report --write fills in code and tables\n"
            << "  docs/decide.md   its number in a table, behind what to try before it\n"
            << "  ./tenfold test -R " << number << "_ and -R contract  what holds for every lesson\n"
            << "docs/adding_a_lesson.md goes through it step by step.\n";
  return 0;
}

}  // namespace tenfold::cli
