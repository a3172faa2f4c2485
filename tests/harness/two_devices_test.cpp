// A part whose process works on two devices: on the CPU, which stands for both, and on two dry GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/result/result.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;
  std::string err;
  CaseResult part, survey;

  explicit Ran(const std::string& flags, const std::string& before = "") {
    const test::Scratch scratch;
    const fs::path file = scratch.path() / "toy.json", errors = scratch.path() / "errors";
    const std::string program = (test::build_folder() / "tests/two_devices_toy").string();
    const std::string command =
        before + " " + program + " " + flags + " --json " + file.string() + " >/dev/null 2>" + errors.string();
    const int status = std::system(command.c_str());
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    err = test::read_text(errors);
    if (!fs::exists(file)) return;
    const Result result = read_result(file);
    for (const CaseResult& measured : result.cases) (measured.kind == "survey" ? survey : part) = measured;
  }
};

TEST(TwoDevices, TheCpuStandsForBoth) {
  const Ran ran("--preset smoke --device cpu");
  EXPECT_EQ(ran.code, 0) << ran.err << "the one left out is a trap, and is found";
  ASSERT_EQ(ran.part.variants.size(), 3U) << ran.err;
  for (const VariantResult& variant : ran.part.variants) EXPECT_EQ(variant.environment.at("devices"), "2");
  EXPECT_EQ(ran.part.variants[1].status, "ok") << ran.part.variants[1].reason;
}

// Nothing of a part can run, whatever kind it is; a variant would look for devices that are not there.
TEST(TwoDevices, OneGpuIsTooFew) {
  const Ran ran("--preset check --device dry:H100", "CUDA_VISIBLE_DEVICES=0");
  EXPECT_EQ(ran.code, 77) << ran.err;
  ASSERT_FALSE(ran.part.variants.empty() || ran.survey.variants.empty()) << ran.err;
  for (const VariantResult& variant : {ran.part.variants[0], ran.survey.variants[0]}) {
    EXPECT_EQ(variant.status, "skipped") << variant.name;
    EXPECT_EQ(variant.reason, "needs 2 GPUs; here are 1") << variant.name;
  }
}

// With arithmetic: the halves meet on the first GPU, in the order that streams and copies keep.
TEST(TwoDevices, TwoDryGpusAgree) {
  const Ran ran("--preset check --device dry:H100", "TENFOLD_DRY_ARITHMETIC=late");
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_EQ(ran.part.variants.size(), 3U) << ran.err;
  EXPECT_EQ(ran.part.variants[1].status, "ok") << ran.part.variants[1].reason;
  EXPECT_EQ(ran.part.variants[2].failure, "disagrees") << ran.part.variants[2].reason;
}

// Of several devices the fuller counts: the first, where the parameters, their gradients, the other's gradients on
// their way into them and half of the batch lie. Biases, losses and results are a part of that half.
TEST(TwoDevices, MemoryIsThatOfTheFullerOne) {
  const Ran ran("--preset check --device dry:H100");
  ASSERT_EQ(ran.part.variants.size(), 3U) << ran.err;
  constexpr int64_t kBatch = 64, kInputs = 256, kOutputs = 64, kFloat = 4;
  constexpr int64_t kWeights = kInputs * kOutputs * kFloat, kHalf = kBatch / 2 * (kInputs + kOutputs) * kFloat;
  EXPECT_NEAR(ran.part.variants[1].peak_bytes.at("requested"), 3 * kWeights + kHalf, kHalf / 4);
}

}  // namespace
}  // namespace tenfold
