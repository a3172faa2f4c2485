// What a lesson's CUDA half leaves out on a dry GPU: every reason is known, so that a new one is looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "common/result/result.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// How the reasons begin. Those of 28, 32 and 35 are a dry GPU's own; the others hold on any GPU.
const std::set<std::string>& known_reasons() {
  static const std::set<std::string> all = {
      "needs two ranks",                // in a place of one
      "not on a dry GPU: what the",     // 32: the driver's own pool, which nobody has described
      "its memory depends on values",   // 28's mask, 59's rows of an expert: at this size nothing is computed
      "4 ranks do not divide 2 heads",  // 58: what Ulysses needs
      "what is loaded are values",      // 65: a process that goes on from a checkpoint
      "has heads of width",             // 46: our kernel, at size cpu
      "a GPU's allocator takes",        // 20: budgets of size cpu are smaller than its segments
      "runs on a CPU's cores",          // 02: a GPU's threads have a survey of their own
      "quantized::linear_dynamic has",  // 35: no kernel for CUDA
      "LibTorch's kernel reads 32",     // 35: not a time that is modelled by bytes
      "another program runs it",        // 24: Python's steps
      "the package is compiled for",    // 24: AOTInductor's, for a CPU
      "layers this narrow fit by",      // 92: a survey of what fills a card, at size cpu
      "changes how many steps",         // 90: early stopping is a training
      "texts",                          // 90: they lie in memory, and are not augmented
      "as in case convnet",             // 90
      "openclipart-",                   // 10, 13, 14, 16, 90: the pictures were never fetched here
  };
  return all;
}

bool is_known(const std::string& reason) {
  return std::ranges::any_of(known_reasons(), [&](const std::string& begin) { return reason.starts_with(begin); });
}

TEST(DryReasons, EveryVariantOfEveryLessonRunsOrSaysAKnownReason) {
  const fs::path folder = test::build_folder() / "dry";  // where the tests dry.LESSON leave their results
  if (!fs::exists(folder)) GTEST_SKIP() << "no test of a lesson on a dry GPU has run";
  size_t variants = 0, agreements = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Result result = read_result(entry.path());
    for (const CaseResult& c : result.cases) {
      for (const VariantResult& variant : c.variants) {
        ++variants;
        EXPECT_TRUE(variant.status != "skipped" || is_known(variant.reason))
            << result.lesson << ", " << c.name << ", " << variant.name << ": " << variant.reason;
        const Verdict* const verdict = verdict_of(c, variant.name);
        if (variant.status != "ok" || verdict == nullptr || c.kind != "comparison") continue;
        ++agreements;
        EXPECT_TRUE(verdict->agreement.has_value())
            << result.lesson << ", " << c.name << ", " << variant.name << ": neither checked nor said why not";
      }
    }
  }
  EXPECT_GT(variants, 0u);
  EXPECT_GT(agreements, 0u);
}

}  // namespace
}  // namespace tenfold
