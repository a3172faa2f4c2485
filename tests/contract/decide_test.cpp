// The pages to decide from: no lesson is missing on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/machine/machine.h"
#include "common/pages/book/dry_cases.h"
#include "common/pages/book/generated.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::string page(const char* name) { return test::read_text(test::source_folder() / "docs" / name); }

std::set<std::string> numbers() {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(test::source_folder() / "lessons")) {
    if (entry.is_directory()) found.insert(number_of_name(entry.path().filename().string()));
  }
  return found;
}

/// Lessons that stand in no table of docs/decide.md, or in two.
std::vector<std::string> misplaced(const std::string& text) {
  std::map<std::string, int> places;
  std::istringstream lines(text);
  const std::string begin = "<!-- tenfold:begin decide ";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(begin)) continue;
    std::istringstream words(line.substr(begin.size()));
    std::string card;
    words >> card;
    for (std::string number; words >> number && number != "-->";)
      ++places[number.substr(0, number.find_first_of("=:#~"))];
  }
  std::vector<std::string> wrong;
  for (const std::string& number : numbers()) {
    if (places[number] != 1) wrong.push_back(number + " stands in " + std::to_string(places[number]) + " tables");
  }
  return wrong;
}

TEST(DecidePages, EveryLessonStandsInOneTable) {
  const std::string text = page("decide.md");
  EXPECT_THAT(misplaced(text), IsEmpty())
      << "add the lesson to a 'tenfold:begin decide' of docs/decide.md, behind what "
         "the reader should try before it";
  const std::string first = "tenfold:begin decide H100 46:";
  ASSERT_NE(text.find(first), std::string::npos);
  std::string without = text, twice = text;
  without.replace(text.find(first), first.size(), "tenfold:begin decide H100 90:");
  EXPECT_THAT(misplaced(without), UnorderedElementsAre("46 stands in 0 tables", "90 stands in 2 tables"))
      << "a planted gap is found";
  twice.replace(text.find(first), first.size(), "tenfold:begin decide H100 90 46:");
  EXPECT_THAT(misplaced(twice), ElementsAre("90 stands in 2 tables"));
}

/// Lessons with a case gpt in the results that the part of docs/one_gpt.md below `heading` does not link.
std::vector<std::string> not_named(const std::string& text, const std::string& heading,
                                   const std::vector<const Result*>& results) {
  const size_t from = text.find(heading);
  if (from == std::string::npos) return {heading};
  const size_t to = text.find("\n#", from + 1);
  const std::string part = text.substr(from, to == std::string::npos ? to : to - from);
  std::vector<std::string> missing;
  for (const Result* const result : results) {
    const bool has_case = std::ranges::any_of(
        result->cases, [](const CaseResult& c) { return c.name == "gpt" && c.kind == "comparison"; });
    if (has_case && part.find("](../lessons/" + result->lesson + "/README.md)") == std::string::npos)
      missing.push_back(result->lesson);
  }
  return missing;
}

TEST(DecidePages, OneGptNamesEveryLessonThatHasTheCase) {
  const std::string text = page("one_gpt.md");
  std::map<std::string, std::vector<const Result*>> by_heading;
  const std::vector<Result> measured = published_results(test::source_folder());
  const std::vector<Result> dry = dry_results(test::source_folder());
  for (const Result& result : measured) by_heading["### " + result.machine.id + "\n"].push_back(&result);
  for (const Result& result : dry) {
    if (dry_card(result) == "H100") by_heading["## Modelled on an H100\n"].push_back(&result);
  }
  ASSERT_FALSE(by_heading.empty());
  for (const auto& [heading, results] : by_heading) {
    EXPECT_THAT(not_named(text, heading, results), IsEmpty()) << heading;
    // Planted: the links to one of them are taken away.
    std::string planted = text;
    const auto has_it = [](const Result* result) { return result->lesson == "44_cross_entropy"; };
    if (!std::ranges::any_of(results, has_it)) continue;
    const std::string link = "](../lessons/44_cross_entropy/README.md)";
    const size_t section = planted.find(heading), next = planted.find("\n#", section + 1);
    for (size_t at = planted.find(link, section); at < next; at = planted.find(link, at + 1)) planted[at + 1] = '<';
    EXPECT_THAT(not_named(planted, heading, results), ElementsAre("44_cross_entropy")) << heading;
  }
}

// A reader who opens the repository meets the page before the numbers, and the commands that hold them.
TEST(DecidePages, TheReadmeLeadsThere) {
  const std::string readme = test::read_text(test::source_folder() / "README.md");
  const std::string screen = readme.substr(0, readme.find("\n## "));
  EXPECT_THAT(screen, testing::HasSubstr("](docs/decide.md)"));
  EXPECT_THAT(screen, testing::HasSubstr("](docs/one_gpt.md)"));
  for (const char* command : {"reproduce ", "compare ", "claims ", "dry "})
    EXPECT_THAT(readme, testing::HasSubstr(std::string("    ./tenfold ") + command));
}

}  // namespace
}  // namespace tenfold
