// Other predictors on the published rows, as a page shows them.
#include "common/pages/book/published_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A tree with two published steps: one in images/s with a published peak, one in ms a step.
class PublishedPeers : public testing::Test {
 protected:
  PublishedPeers() {
    write("published.json", R"([
      {"id": "images", "card": "A100", "what": "images/s", "value": 100, "precision": "tf32", "reserved_gib": 2.0},
      {"id": "steps", "card": "T4", "what": "ms/step", "value": 50, "precision": "fp16 autocast"}])");
    write("modelled.json", R"({"rows": [{"id": "images", "value": 120, "reserved_gib": 2.1},
                                        {"id": "steps", "value": 30}]})");
  }
  void write(const std::string& name, const std::string& text) const {
    test::write_text(root_ / "docs/published_steps" / name, text);
  }

  const test::Scratch scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

TEST_F(PublishedPeers, EachIsScoredByArithmeticWithTheRowsThatItCanRun) {
  EXPECT_EQ(published_peers_markdown(root_), "Not scored yet.\n");
  write("peers.json", R"({"rows": [
    {"id": "images", "ran_at": "2026-01-02T03:04:05Z", "commit": "0123456789abcdef", "dirty": false,
     "versions": {"torch": "2.0"},
     "values": {"whole_step": 300, "by_operator": 50, "runtime_estimator": 90, "runtime_estimator_without_device": 100},
     "gib": {"mem_tracker": 1.5}},
    {"id": "steps", "ran_at": "2026-01-03T03:04:05Z", "commit": "0123456789abcdef", "dirty": false,
     "versions": {"torch": "2.0"}, "values": {"whole_step": 25, "by_operator": 40},
     "failed": {"runtime_estimator": "AssertionError: two types"}}]})");
  const std::string text = published_peers_markdown(root_);
  EXPECT_THAT(text, HasSubstr("| roofline of the whole step | TF32 | 1 | 3.00x | 0 of 1 | 0 of 1 |"));
  EXPECT_THAT(text, HasSubstr("| roofline of the whole step | 16 bits | 1 | 2.00x | 0 of 1 | 1 of 1 |"));
  EXPECT_THAT(text, HasSubstr("| roofline of the whole step | all | 2 | 2.50x | 0 of 2 | 1 of 2 |"));
  EXPECT_THAT(text, HasSubstr("| roofline of each operator, summed | TF32 | 1 | 2.00x |")) << "too slow is off, too";
  EXPECT_THAT(text, HasSubstr("| PyTorch's RuntimeEstimator | all | 1 | 1.11x | 1 of 1 | 1 of 1 |"));
  EXPECT_THAT(text, HasSubstr("| PyTorch's RuntimeEstimator | fp32 | 0 |"));
  EXPECT_THAT(text, HasSubstr("| Tenfold's dry GPU | all | 2 | 1.43x | 1 of 2 | 2 of 2 |"));
  EXPECT_THAT(text, HasSubstr("The others were asked about 2 of 2 steps, 2026-01-02, 2026-01-03, with PyTorch 2.0, at "
                              "commit 0123456789.\n"));
  EXPECT_THAT(text, HasSubstr("| Tenfold's dry GPU | 1 | 1.20x | 1 of 1 | 1 of 1 |")) << "of the row that all can run";
  EXPECT_THAT(text, HasSubstr("| images | 2.00 GiB | 1.50 GiB | -25 % | 2.10 GiB | +5.0 % |"));
  EXPECT_THAT(text, HasSubstr("- runtime\\_estimator: AssertionError: two types (1 step)\n"));
}

TEST_F(PublishedPeers, StepsThatNobodyWasAskedAboutAndCommitsAreCounted) {
  write("peers.json", R"({"rows": [
    {"id": "images", "ran_at": "2026-01-02", "commit": "0123", "dirty": false, "versions": {"torch": "2.0"}}]})");
  EXPECT_THAT(published_peers_markdown(root_), HasSubstr("asked about 1 of 2 steps, 2026-01-02, "));
  write("peers.json", R"({"rows": [
    {"id": "images", "ran_at": "2026-01-02", "commit": "0123", "dirty": false, "versions": {"torch": "2.0"}},
    {"id": "steps", "ran_at": "2026-01-02", "commit": "4567", "dirty": true, "versions": {"torch": "2.0"}}]})");
  EXPECT_THAT(published_peers_markdown(root_), HasSubstr(", at 2 commits, 1 step with uncommitted changes.\n"));
}

TEST_F(PublishedPeers, ADamagedFileIsNamed) {
  for (const char* const text : {"{", R"({"rows": [{}]})"}) {
    write("peers.json", text);
    EXPECT_THAT([&] { published_peers_markdown(root_); },
                testing::ThrowsMessage<FileError>(HasSubstr("docs/published_steps/peers.json")));
  }
}

}  // namespace
}  // namespace tenfold
