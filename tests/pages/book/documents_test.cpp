// The pages of this tree: their links lead somewhere, the glossary is in order, drawings can be read by everybody.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "common/base/files.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream text(read_text(file));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Without what stands between ``` and ```.
std::vector<std::string> prose_of(const fs::path& file) {
  std::vector<std::string> prose;
  bool code = false;
  for (const std::string& line : lines_of(file)) {
    if (line.starts_with("```")) code = !code;
    if (!code) prose.push_back(line);
  }
  return prose;
}

std::vector<fs::path> pages() {
  const fs::path root = test::source_folder();
  std::vector<fs::path> found = {root / "README.md", root / "CONTRIBUTING.md", root / "kernels" / "README.md"};
  for (const char* folder : {"lessons", "kernels"}) {
    for (const auto& entry : fs::directory_iterator(root / folder)) {
      if (fs::exists(entry.path() / "README.md")) found.push_back(entry.path() / "README.md");
    }
  }
  for (const auto& entry : fs::directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// As GitHub and MkDocs name a heading.
std::string slug(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '_' || c == '-' || letter >= 0x80)
      out += static_cast<char>(std::tolower(letter));
    if (c == ' ') out += '-';
  }
  return out;
}

/// Of headings, and of <a id="...">.
std::set<std::string> anchors(const fs::path& page) {
  std::set<std::string> found;
  for (const std::string& line : prose_of(page)) {
    const size_t text = line.find_first_not_of('#');
    if (text != std::string::npos && text > 0 && line[text] == ' ') found.insert(slug(line.substr(text + 1)));
    const std::string id = "<a id=\"";
    for (size_t at = line.find(id); at != std::string::npos; at = line.find(id, at + 1)) {
      const size_t from = at + id.size();
      found.insert(line.substr(from, line.find('"', from) - from));
    }
  }
  return found;
}

TEST(Documents, NoNumberTearsItsParagraphApart) {
  for (const fs::path& page : pages()) {
    for (const std::string& line : lines_of(page)) {
      const size_t begin = std::min(line.find_first_not_of(' '), line.size());
      const std::string text = line.substr(begin);
      EXPECT_FALSE(text.starts_with("<!-- value ") || text.starts_with("<!-- none "))
          << page << ": a comment at the beginning of a line ends the paragraph; move a word before it: " << line;
    }
  }
}

TEST(Documents, LinksLeadSomewhere) {
  size_t links = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& line : prose_of(page)) {
      for (size_t at = line.find("]("); at != std::string::npos; at = line.find("](", at + 1)) {
        const std::string link = line.substr(at + 2, line.find(')', at) - at - 2);
        if (link.find("://") != std::string::npos || link.find(' ') != std::string::npos) continue;
        const std::string path = link.substr(0, link.find('#'));
        const fs::path target = path.empty() ? page : (page.parent_path() / path).lexically_normal();
        EXPECT_TRUE(fs::exists(target)) << page << " links to " << link;
        ++links;
        if (path.size() == link.size() || target.extension() != ".md" || !fs::exists(target)) continue;
        EXPECT_TRUE(anchors(target).contains(link.substr(path.size() + 1))) << page << ": no such heading: " << link;
      }
    }
  }
  EXPECT_GT(links, 100U);
}

TEST(Documents, TheGlossaryIsInOrder) {
  std::vector<std::string> words;
  for (const std::string& line : lines_of(test::source_folder() / "docs" / "glossary.md")) {
    if (!line.starts_with("- <a id=\"")) continue;
    const size_t begin = line.find("</a>**") + 6;
    std::string word = line.substr(begin, line.find("**", begin) - begin);
    std::erase(word, '\\');
    std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
    words.push_back(word);
  }
  EXPECT_GT(words.size(), 50U);
  EXPECT_TRUE(std::is_sorted(words.begin(), words.end()));
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

TEST(Documents, DrawingsCanBeReadByEverybody) {
  std::string text;
  for (const fs::path& page : pages()) text += read_text(page);
  size_t drawings = 0;
  for (const auto& entry : fs::directory_iterator(test::source_folder() / "docs" / "figures")) {
    const fs::path& file = entry.path();
    if (entry.is_directory()) continue;  // drawn by a program
    const std::string svg = read_text(file);
    ++drawings;
    for (const char* part : {"viewBox=\"0 0 ", "<title id=\"title\">", "<desc id=\"desc\">", "prefers-color-scheme"})
      EXPECT_NE(svg.find(part), std::string::npos) << file << " lacks " << part;
    EXPECT_EQ(svg.find("http", svg.find('\n')), std::string::npos) << file << ": draws something from elsewhere";
    EXPECT_LE(std::count(svg.begin(), svg.end(), '\n'), 125) << file;
    EXPECT_NE(text.find("figures/" + file.filename().string() + ")"), std::string::npos)
        << file << ": no page shows it";
  }
  EXPECT_GE(drawings, 14U);
}

}  // namespace
}  // namespace tenfold
