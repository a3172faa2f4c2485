// docs/claims.json against the lessons as they describe themselves, and the pages that must show its rows.
#include "common/pages/book/claims.h"
#include "common/pages/book/claims_judge.h"
#include "common/pages/book/generated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
const fs::path kSource = test::source_folder();

const Ledger& the_ledger() {
  static const Ledger ledger = read_ledger(kSource / "docs/claims.json");
  return ledger;
}

TEST(ClaimsLedger, NamesWhatTheLessonsHave) {
  std::map<std::string, LessonParts> lessons;
  for (const auto& entry : fs::directory_iterator(kSource / "lessons")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory())
      lessons[name] = described_parts(test::build_folder() / "lessons" / (name + ".describe.json"));
  }
  ASSERT_FALSE(lessons.empty());
  EXPECT_NO_THROW(check_names(the_ledger(), "docs/claims.json", lessons));
}

// What a survey looks at, and which techniques a case runs, stands in no description: published results say whether a
// claim names it rightly.
TEST(ClaimsLedger, EveryRowIsThereOnceItsLessonIsPublished) {
  const std::vector<Result> published = published_results(kSource);
  size_t rows = 0;
  for (const Claim& claim : the_ledger().claims) {
    for (const ClaimTest& test : claim.tests) {  // each alone: what the others decide says nothing of this one
      Claim alone = claim;
      alone.tests = {test};
      for (const ClaimOutcome& outcome : judge_on_each(alone, published)) {
        const bool measured = std::any_of(published.begin(), published.end(), [&](const Result& result) {
          return result.machine.id == outcome.machine && result.lesson == claim.lesson;
        });
        if (!measured) continue;
        ++rows;
        for (const char* missing : {"not noted", "not run"}) {
          EXPECT_EQ(outcome.why.find(missing), std::string::npos)
              << claim.id << " on " << outcome.machine << ": " << outcome.why
              << "; mend the name in docs/claims.json, or publish the lesson before its claim";
        }
      }
    }
  }
  if (!published.empty()) EXPECT_GT(rows, 0U);
}

TEST(ClaimsLedger, NoCpuDecidesAClaimAboutGpus) {
  std::vector<Result> published = published_results(kSource);
  for (Result& result : published)
    std::erase_if(result.cases, [](const CaseResult& c) { return c.device.starts_with("cuda"); });
  size_t claims = 0;
  for (const Claim& claim : the_ledger().claims) {
    if (!claim.gpu) continue;
    ++claims;
    EXPECT_EQ(overall(judge_on_each(claim, published)), ClaimVerdict::not_measured) << claim.id;
  }
  EXPECT_GT(claims, 0U);
}

TEST(ClaimsLedger, PagesOfItsLessonsShowTheRows) {
  for (const auto& entry : fs::directory_iterator(kSource / "lessons")) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    const std::string page = test::read_text(entry.path() / "README.md");
    const auto shows = [&](const char* kind) {
      return page.find(std::string("<!-- tenfold:begin ") + kind + " -->") != std::string::npos;
    };
    const auto of_lesson = [&](const auto& row) { return row.lesson == name; };
    const auto& claims = the_ledger().claims;
    const auto& elsewhere = the_ledger().elsewhere;
    // A copied lesson has the comments before it has rows: they stay empty.
    if (std::any_of(claims.begin(), claims.end(), of_lesson))
      EXPECT_TRUE(shows("claims")) << name
                                   << "/README.md: '<!-- tenfold:begin claims -->' after \"Before this:\", since "
                                   << "docs/claims.json has a claim for the lesson";
    if (std::any_of(elsewhere.begin(), elsewhere.end(), of_lesson))
      EXPECT_TRUE(shows("elsewhere")) << name
                                      << "/README.md: '<!-- tenfold:begin elsewhere -->' at the end of What it brings";
  }
  EXPECT_NE(test::read_text(kSource / "docs/claims.md").find("<!-- tenfold:begin claims -->"), std::string::npos);
}

TEST(ClaimsLedger, EveryArticleHasAClaim) {
  for (const ClaimSource& source : the_ledger().sources) {
    EXPECT_TRUE(std::any_of(the_ledger().claims.begin(), the_ledger().claims.end(), [&](const Claim& claim) {
      return claim.source == source.id;
    })) << source.id;
  }
}

}  // namespace
}  // namespace tenfold
