// A GPU that fails for good ends the process, and costs one variant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(LostDevice, CostsOneVariantAndNoOther) {
  const test::Scratch scratch;
  const fs::path file = scratch.path() / "toy.json", errors = scratch.path() / "errors";
  const std::string program = (test::build_folder() / "tests/lost_device_toy").string();
  const int status = std::system(
      (program + " --preset smoke --device cpu --json " + file.string() + " >/dev/null 2>" + errors.string()).c_str());
  const std::string err = test::read_text(errors);
  EXPECT_EQ(WEXITSTATUS(status), 1) << "a variant is INVALID, and nobody expected it: " << err;
  for (const char* const lost : {"'breaks' of case 'looked at': CUDA error: misaligned address",
                                 "'broken' of case 'toy': CUDA error: an illegal memory access was encountered",
                                 "'broken, too' of case 'toy': CUDA error: an illegal memory access was encountered"})
    EXPECT_THAT(err, HasSubstr(std::string("the GPU failed for good in ") + lost + "; starting again without it\n"));
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 3) << err;
  const Result result = read_result(file);
  std::vector<std::string> invalid, valid;
  for (const CaseResult& part : result.cases) {
    for (const VariantResult& variant : part.variants) {
      (variant.status == "ok" ? valid : invalid).push_back(part.name + " | " + variant.name);
      if (variant.status != "ok") {
        EXPECT_EQ(variant.failure, "error");
        EXPECT_THAT(variant.reason, HasSubstr("the GPU failed for good: CUDA error: "));
      }
    }
  }
  EXPECT_EQ(invalid, (std::vector<std::string>{"looked at | breaks", "toy | broken", "toy | broken, too"}));
  EXPECT_EQ(valid, (std::vector<std::string>{"looked at | counts", "toy | plain", "toy | twin", "only twins | plain",
                                             "only twins | twin"}));
}

}  // namespace
}  // namespace tenfold
