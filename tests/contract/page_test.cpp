// A lesson's page is read in minutes: what it may have of words and code, and what it must have.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(tenfold::test::source_folder() / "lessons")) {
    if (entry.is_directory()) found.push_back(entry.path() / "README.md");
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Lines below each second-level heading.
std::map<std::string, std::vector<std::string>> sections_of(const fs::path& page) {
  std::map<std::string, std::vector<std::string>> sections;
  std::istringstream text(tenfold::test::read_text(page));
  std::string heading;
  bool code = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) code = !code;
    if (!code && line.starts_with("## ")) {
      heading = line.substr(3);
    } else {
      sections[heading].push_back(line);
    }
  }
  return sections;
}

/// Of prose: no tables, pictures, code or comments.
size_t words_of(const std::vector<std::string>& lines) {
  size_t words = 0;
  bool code = false;
  for (const std::string& line : lines) {
    if (line.starts_with("```")) code = !code;
    if (code || line.starts_with("|") || line.starts_with("![") || line.starts_with("<") || line.starts_with("    "))
      continue;
    std::istringstream text(line);
    for (std::string word; text >> word;) ++words;
  }
  return words;
}

/// Of code that a reader sees without unfolding anything.
size_t open_code_lines(const std::vector<std::string>& lines) {
  size_t count = 0;
  int folded = 0;
  bool code = false;
  for (const std::string& line : lines) {
    if (line.starts_with("<details>")) ++folded;
    if (line.find("</details>") != std::string::npos) --folded;
    if (line.starts_with("```")) {
      code = !code;
    } else if (code && folded == 0) {
      ++count;
    }
  }
  return count;
}

bool has(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

class EveryPage : public testing::TestWithParam<fs::path> {};

TEST_P(EveryPage, KeepsItsBudgets) {
  auto sections = sections_of(GetParam());
  EXPECT_LE(words_of(sections["The idea"]), 260U) << "one idea; the rest stands in Inside";
  const size_t code = open_code_lines(sections["The change"]);
  EXPECT_LE(code, 60U) << "what changes, in C++ (40 lines) and in PyTorch; whole programs are folded in Inside";
  EXPECT_GE(code, 8U) << "the change is code";
  const std::vector<std::string>& mistakes = sections["Common mistakes"];
  const auto items =
      std::count_if(mistakes.begin(), mistakes.end(), [](const std::string& line) { return line.starts_with("- "); });
  EXPECT_GE(items, 3);
  EXPECT_LE(items, 7);
}

TEST_P(EveryPage, LetsTheReaderGuessAndSaysHowToRead) {
  auto sections = sections_of(GetParam());
  EXPECT_TRUE(has(sections["What it brings"], "How to read this")) << "two or three sentences below the tables";
  EXPECT_TRUE(has(sections["Try it"], "guess")) << "two or three questions before the reader runs it";
  EXPECT_TRUE(has(sections["Try it"], "<details><summary>Answer</summary>")) << "answers are folded";
  EXPECT_TRUE(has(sections["Try it"], "./tenfold exercise ")) << "the exercise";
}

INSTANTIATE_TEST_SUITE_P(Lessons, EveryPage, testing::ValuesIn(pages()),
                         [](const auto& page) { return "L" + page.param.parent_path().filename().string(); });

}  // namespace
