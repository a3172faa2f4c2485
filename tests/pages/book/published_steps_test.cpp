// Modelled times against published ones, and seals, as a page shows them.
#include "common/pages/book/published_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/pages/book/seals.h"
#include "common/result/seal.h"
#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A tree with three published steps: one in images/s, one in ms a step, and one that nothing came of.
class PublishedSteps : public testing::Test {
 protected:
  PublishedSteps() {
    write("docs/published_steps/published.json", R"([
      {"id": "images", "model": "net", "card": "A100-40", "what": "images/s", "value": 100, "batch": 8,
       "shape": "224x224", "precision": "tf32", "source": "https://x.org/a @ 1", "reserved_gib": 2.0},
      {"id": "steps", "model": "net", "card": "T4", "what": "ms/step", "value": 50, "batch": 4, "shape": "32x32",
       "precision": "fp16 autocast", "source": "https://x.org/a @ 1", "after": "images"},
      {"id": "neither", "model": "net", "card": "T4", "what": "ms/step", "value": 50, "batch": 4, "shape": "32x32",
       "precision": "fp32", "source": "https://x.org/b"}])");
  }
  void write(const std::string& name, const std::string& text) const { test::write_text(root_ / name, text); }
  void score() const {
    write("docs/published_steps/modelled.json",
          R"({"scored_at": "2026-01-02T03:04:05Z", "commit": "0123456789abcdef",
      "dirty": false, "host": "Sample CPU", "rows": [
      {"id": "images", "value": 150, "ms_per_step": 1, "reserved_gib": 2.1},
      {"id": "steps", "value": 25, "ms_per_step": 25, "stands_in": "something"},
      {"id": "neither", "failed": "out of memory"}]})");
  }

  const test::Scratch scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

TEST_F(PublishedSteps, AFasterModelIsAboveOneInEitherUnit) {
  EXPECT_EQ(published_steps_markdown(root_), "Not scored yet.\n");
  score();
  const std::string text = published_steps_markdown(root_);
  EXPECT_THAT(text, HasSubstr("| TF32 | 1 | 1.50x | 1.50x to 1.50x | 0 of 1 | 1 of 1 |"));
  EXPECT_THAT(text, HasSubstr("| 16 bits | 1 | 2.00x |"));
  EXPECT_THAT(text, HasSubstr("| all | 2 | 1.75x |"));
  EXPECT_THAT(text, HasSubstr("| net, 32x32 (\\*) |"));
  EXPECT_THAT(text, HasSubstr("| images | A100 40 GB | tf32 | 2.00 GiB | 2.10 GiB | +5.0 % |"));
  EXPECT_THAT(text, HasSubstr("- neither: out of memory\n"));
  EXPECT_THAT(text, HasSubstr("| steps | images | 2.00x | 2.67x |")) << "twice as fast, and 2 / 1.5 times too much";
  EXPECT_THAT(text, HasSubstr("Sources: [x.org/a](https://x.org/a), [x.org/b](https://x.org/b)."));
  EXPECT_THAT(text, HasSubstr("at commit 0123456789; the host's part is that of Sample CPU"));
}

TEST_F(PublishedSteps, ARowThatRanLaterSaysWithWhichCode) {
  score();
  EXPECT_THAT(published_steps_markdown(root_), Not(HasSubstr("Scored later")));
  write("docs/published_steps/modelled.json",
        R"({"scored_at": "2026-01-02T03:04:05Z", "commit": "0123456789abcdef", "dirty": false, "host": "Sample CPU",
      "rows": [{"id": "images", "value": 150}, {"id": "steps", "value": 25, "scored_at": "2026-02-03T00:00:00Z",
      "commit": "fedcba9876543210", "dirty": true, "host": "Another CPU"}]})");
  const std::string text = published_steps_markdown(root_);
  EXPECT_THAT(text, HasSubstr("Scored 2026-01-02 at commit 0123456789; the host's part is that of Sample CPU.\n"));
  EXPECT_THAT(text, HasSubstr("Scored later, 2026-02-03 at commit fedcba9876 with uncommitted changes; the host's part "
                              "is that of Another CPU: steps.\n"));
  const std::set<std::string> commits = commits_of_scores(root_);
  EXPECT_THAT(commits, testing::UnorderedElementsAre("0123456789abcdef", "fedcba9876543210"));
  EXPECT_THAT(published_steps_markdown(root_, commits),
              HasSubstr("at commit 0123456789 (earlier model); the host's part"));
}

TEST_F(PublishedSteps, StepsHeldOutAndTheFrozenModelHaveRowsOfTheirOwn) {
  score();
  const std::string before = published_steps_markdown(root_);
  EXPECT_THAT(before, Not(HasSubstr("frozen")));
  EXPECT_THAT(before, Not(HasSubstr("held out")));
  write("docs/published_steps/modelled_frozen.json", R"({"rows": [{"id": "images", "value": 200}]})");
  EXPECT_THAT(published_steps_markdown(root_), HasSubstr("| all, by the model as it was frozen | 1 | 2.00x |"));
  std::string rows = read_text(root_ / "docs/published_steps/published.json");
  rows.replace(rows.find(R"("id": "steps")"), 13, R"("held_out": true, "id": "steps")");
  write("docs/published_steps/published.json", rows);
  const std::string text = published_steps_markdown(root_);
  EXPECT_THAT(text, HasSubstr("| all | 1 | 1.50x |"));
  EXPECT_THAT(text, Not(HasSubstr("| 16 bits |")));
  EXPECT_THAT(text, HasSubstr("| held out: collected after that, any | 1 | 2.00x |"));
  EXPECT_THAT(text, HasSubstr("| net, 32x32 (\\*) (held out) |"));
}

TEST_F(PublishedSteps, ADamagedFileIsNamed) {
  for (const char* const text : {"{", R"({"rows": [{}]})"}) {
    write("docs/published_steps/modelled.json", text);
    EXPECT_THAT([&] { published_steps_markdown(root_); },
                testing::ThrowsMessage<FileError>(HasSubstr("docs/published_steps/modelled.json")));
  }
}

TEST_F(PublishedSteps, ASealStandsForAnUnchangedSet) {
  const Result result = sample_modelled_result();
  const std::string folder = "results/" + result.machine.id;
  EXPECT_EQ(seals_markdown(root_, {}, {}), "No set is published yet.\n");
  write_result(root_ / folder / "30_gradient_accumulation.json", result);
  EXPECT_THROW(seals_markdown(root_, {result}, {}), FileError);
  write(folder + "/SHA256SUMS", seal_of(sealed_texts(root_ / folder)));
  EXPECT_THAT(seals_markdown(root_, {result}, {}), HasSubstr("| H100 | 1 | 1 | 1 | 2026-01-02 |"));
  EXPECT_THAT(seals_markdown(root_, {result}, {result.commit}), HasSubstr("| H100 | 1 | 1 | 0 | 2026-01-02 |"))
      << "none by today's model";
  write(folder + "/another.json", "{}");
  EXPECT_THROW(seals_markdown(root_, {result}, {}), FileError);
}

}  // namespace
}  // namespace tenfold
