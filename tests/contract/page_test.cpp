// A lesson's page is read in minutes: what it may have of words and code, and what it must have.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
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

/// What stands between `begin` and `end` is taken away, both included: comments, whose conditions may have a > of their
/// own.
std::string without(std::string text, const std::string& begin, const std::string& end) {
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    const size_t behind = text.find(end, at + begin.size());
    text.erase(at, behind == std::string::npos ? behind : behind + end.size() - at);
  }
  return text;
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
      sections[heading] = {};
    } else {
      sections[heading].push_back(line);
    }
  }
  return sections;
}

/// Of prose: no tables, pictures, code or comments. An inline value counts: it is read as a word.
size_t words_of(const std::vector<std::string>& lines) {
  static const std::regex tag("<[^>]*>");
  size_t words = 0;
  bool code = false;
  for (const std::string& line : lines) {
    if (line.starts_with("```")) code = !code;
    if (code || line.starts_with("|") || line.starts_with("![") || line.starts_with("    ")) continue;
    std::istringstream text(std::regex_replace(without(line, "<!--", "-->"), tag, " "));
    for (std::string word; text >> word;) ++words;
  }
  return words;
}

/// Lines of code that a reader sees without unfolding anything, without each block's first, the name of its file.
struct CodeLines {
  size_t cpp = 0, python = 0;
};

CodeLines open_code_lines(const std::vector<std::string>& lines) {
  CodeLines count;
  int folded = 0;
  bool code = false, python = false, named = false;
  for (const std::string& line : lines) {
    if (line.starts_with("<details>")) ++folded;
    if (line.find("</details>") != std::string::npos) --folded;
    if (line.starts_with("```")) {
      code = !code;
      python = line == "```python";
      named = false;
    } else if (code && !named) {
      named = true;
    } else if (code && folded == 0) {
      ++(python ? count.python : count.cpp);
    }
  }
  return count;
}

bool has(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

class EveryPage : public testing::TestWithParam<fs::path> {};

// Who opens a page wants to know at once what it asks, what came out, and whether it is for him.
TEST_P(EveryPage, TheFirstScreenDecides) {
  const std::vector<std::string> screen = sections_of(GetParam())[""];
  const auto begins = [&](const std::string& with) {
    return std::any_of(screen.begin(), screen.end(), [&](const std::string& line) { return line.starts_with(with); });
  };
  for (const char* part : {"<!-- tenfold:begin question -->", "*Short answer.* ",
                           "| use it when | skip it when | you pay | in PyTorch |", "Before this: "})
    EXPECT_TRUE(begins(part)) << GetParam() << ": before the first heading stands no line '" << part << "...'";
  const bool measures = tenfold::test::read_text(GetParam()).find("<!-- value ") != std::string::npos;
  const auto answer =
      std::ranges::find_if(screen, [](const std::string& line) { return line.starts_with("*Short answer.* "); });
  const std::vector<std::string> sentences(answer, std::find(answer, screen.end(), ""));
  EXPECT_TRUE(!measures || has(sentences, "<!-- value ")) << GetParam() << ": the short answer has no published number";
  size_t seen = 0, folded = 0;
  for (const std::string& line : screen) {
    if (line.starts_with("<details>")) folded = ++seen;
    if (folded == 0) ++seen;
    if (line == "</details>") folded = 0;
  }
  EXPECT_LE(seen, 20U) << "lines before the first heading";
}

TEST_P(EveryPage, KeepsItsBudgets) {
  auto sections = sections_of(GetParam());
  EXPECT_LE(words_of(sections["The idea"]), 260U) << "one idea; the rest stands in Inside";
  const CodeLines code = open_code_lines(sections["The change"]);
  EXPECT_LE(code.cpp, 40U) << "lines of C++: what changes; whole programs are folded in Inside";
  EXPECT_LE(code.cpp + code.python, 60U) << "lines of C++ and of the same in PyTorch";
  EXPECT_GE(code.cpp, 8U) << "the change is code";
  const std::vector<std::string>& mistakes = sections["Common mistakes"];
  const auto items =
      std::count_if(mistakes.begin(), mistakes.end(), [](const std::string& line) { return line.starts_with("- "); });
  EXPECT_GE(items, 3);
  EXPECT_LE(items, 7);
  const auto symptoms =
      std::count_if(mistakes.begin(), mistakes.end(), [](const std::string& line) { return line.starts_with("- **"); });
  EXPECT_EQ(symptoms, items) << "a mistake begins with what its reader sees or does, in bold";
}

TEST_P(EveryPage, SaysSomethingBelowEachHeading) {
  for (const auto& [heading, lines] : sections_of(GetParam()))
    EXPECT_GE(words_of(lines), 15U) << GetParam() << ": " << heading;
}

TEST_P(EveryPage, CutsItsCodeFromFiles) {
  size_t number = 0;
  bool generated = false;
  std::istringstream text(tenfold::test::read_text(GetParam()));
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.starts_with("<!-- tenfold:begin ")) generated = true;
    if (line.starts_with("<!-- tenfold:end")) generated = false;
    EXPECT_FALSE(line.starts_with("```") && !generated)
        << GetParam() << ":" << number << ": code is cut from a file that is compiled or run, not typed";
  }
  const auto change = sections_of(GetParam())["The change"];
  EXPECT_TRUE(std::ranges::any_of(change, [](const std::string& line) {
    const std::string block = "<!-- tenfold:begin code ";
    return line.starts_with("<!-- tenfold:begin diff ") ||
           (line.starts_with(block) && line.compare(block.size(), 7, "python.") != 0);
  })) << "The change shows no C++ of the lesson";
}

TEST_P(EveryPage, LetsTheReaderGuessAndSaysHowToRead) {
  auto sections = sections_of(GetParam());
  EXPECT_TRUE(has(sections["What it brings"], "How to read this")) << "two or three sentences below the tables";
  EXPECT_TRUE(has(sections["Try it"], "guess")) << "two or three questions before the reader runs it";
  EXPECT_TRUE(has(sections["Try it"], "<details><summary>Answer</summary>")) << "answers are folded";
  EXPECT_TRUE(has(sections["Try it"], "./tenfold run ") || has(sections["Try it"], "./tenfold kernel "))
      << "one experiment";
  EXPECT_TRUE(has(sections["Try it"], "./tenfold exercise ")) << "the exercise";
}

/// What is written by hand: generated parts say what a run said, and change with the next one.
std::string prose_of(const fs::path& page) {
  std::istringstream text(tenfold::test::read_text(page));
  std::string prose;
  bool generated = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("<!-- tenfold:begin")) generated = true;
    if (!generated) prose += line + " ";
    if (line.starts_with("<!-- tenfold:end")) generated = false;
  }
  return prose;
}

/// Ratios of hand-written prose with the three digits of a measured one, "0.357x", that neither a result nor a source
/// of the page holds: a value in comments changes with the next publication, a typed one stays behind.
std::vector<std::string> typed_ratios(const std::string& page_text, const std::string& prose) {
  static const std::regex ratio(R"(\b(0\.\d{3}|[1-9]\.\d{2}|[1-9]\d\.\d)x\b)");
  const size_t elsewhere = page_text.find("<!-- tenfold:begin elsewhere -->");
  const std::string cited =
      elsewhere == std::string::npos
          ? ""
          : page_text.substr(elsewhere, page_text.find("<!-- tenfold:end", elsewhere) - elsewhere);
  const std::string typed = without(prose, "<!-- value ", "<!-- / -->");
  std::vector<std::string> wrong;
  for (std::sregex_iterator at(typed.begin(), typed.end(), ratio), end; at != end; ++at) {
    if (cited.find((*at)[1].str()) == std::string::npos) wrong.push_back(at->str());
  }
  return wrong;
}

TEST_P(EveryPage, TypesNoMeasuredRatio) {
  EXPECT_EQ(typed_ratios(tenfold::test::read_text(GetParam()), prose_of(GetParam())), std::vector<std::string>{})
      << "a measured ratio stands in <!-- value CASE | TECHNIQUE | WHAT -->...<!-- / -->, another's under Measured "
         "elsewhere (docs/claims.json); write a calculated one as '1.25 times'";
}

/// Sentences that speak of a lesson as of one that is still to be written, although it exists. A sentence that names no
/// number counts: whoever writes the lesson would not find it.
std::vector<std::string> outdated(const std::string& prose, const std::set<std::string>& numbers) {
  static const std::regex later(
      "waits? for lessons? ([0-9]{2})"
      "|lessons? ([0-9]{2})[^.]{0,40}(?:not written yet|(?:is|are) to come)"
      "|lessons? (?:are |is )?to come");
  std::vector<std::string> found;
  for (std::sregex_iterator at(prose.begin(), prose.end(), later), end; at != end; ++at) {
    const std::string number = (*at)[1].matched ? (*at)[1].str() : (*at)[2].str();
    if (number.empty() || numbers.contains(number)) found.push_back(at->str());
  }
  return found;
}

TEST(Pages, SpeakOfNoLessonThatExistsAsOfOneToCome) {
  const std::set<std::string> existing = {"53"};
  EXPECT_EQ(outdated("on several, sharding, which are lessons to come.", existing).size(), 1U);
  EXPECT_EQ(outdated("no sharded optimizer, and lesson 53 is not written yet.", existing).size(), 1U);
  EXPECT_EQ(outdated("it waits for lesson 53: ...", existing).size(), 1U);
  EXPECT_TRUE(
      outdated("it waits for lesson 77; outputs are not written yet. Lesson 53 divides them.", existing).empty());

  std::vector<fs::path> all = pages();
  std::set<std::string> numbers;
  for (const fs::path& page : all) numbers.insert(page.parent_path().filename().string().substr(0, 2));
  const fs::path root = tenfold::test::source_folder();
  all.push_back(root / "README.md");
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  }
  EXPECT_GT(all.size(), numbers.size() + 20);
  for (const fs::path& page : all) EXPECT_EQ(outdated(prose_of(page), numbers), std::vector<std::string>{}) << page;
}

/// Words that the field has another word for, or that say nothing.
std::vector<std::string> unwanted_words(const std::string& prose) {
  static const std::map<std::string, std::string> kInstead = {
      {"joint batch(es)?", "full batch, global batch"},
      {"momenta", "optimizer state"},
      {"matrix products?", "matmul, GEMM"},
      {"multiprocessors?", "SM"},
      {"worked off", "processed"},
      {"stops? to matter", "stops mattering"},
      {"never there as a whole", "never materialised"},
      {"one often reads", "a common claim is, with its source"},
      {"simply|obviously|basically|of course|note that", "it without this word"},
  };
  std::vector<std::string> wrong;
  for (const auto& [word, instead] : kInstead) {
    const std::regex whole("\\b(" + word + ")\\b", std::regex::icase);
    for (std::sregex_iterator at(prose.begin(), prose.end(), whole), end; at != end; ++at)
      wrong.push_back(at->str() + ": say " + instead);
  }
  return wrong;
}

// Titles of others' works are as they are: Sources are not asked.
TEST_P(EveryPage, UsesTheFieldsWords) {
  const std::string prose = prose_of(GetParam());
  EXPECT_EQ(unwanted_words(prose.substr(0, prose.find("## Sources "))), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Lessons, EveryPage, testing::ValuesIn(pages()),
                         [](const auto& page) { return "L" + page.param.parent_path().filename().string(); });

}  // namespace
