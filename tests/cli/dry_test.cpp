// dry: a program on a card that is not there.

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class Dry : public Sandbox {
 protected:
  void SetUp() override {
    if (!fs::exists(test::build_folder() / "common/dry_gpu/libtenfold_dry_cudart.so"))
      GTEST_SKIP() << "no dry GPU is built";
    fs::create_directories(root_ / "build/common");
    fs::create_directory_symlink(test::build_folder() / "common/dry_gpu", root_ / "build/common/dry_gpu");
  }
  /// One that allocates 3 MiB through the runtime, among other things.
  std::string program() const {
    return (test::build_folder() / "tests/dry_gpu_test").string() + " --gtest_filter=Memory.KnowsItsAddresses";
  }
};

TEST_F(Dry, SaysWhatTheProgramAskedOfTheCard) {
  const Ran ran = tenfold("dry --gpu t4 --gpus 2 -- " + program());
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "PASSED")) << "its own output: " << ran.out;
  EXPECT_TRUE(has(ran.err, "dry GPU Tesla T4: no such card is here, nothing is computed, and no time is measured"))
      << ran.err;
  EXPECT_TRUE(has(ran.err, "dry GPU 0 (T4): at most 4.00 MiB of 14.8 GiB taken")) << ran.err;
  EXPECT_TRUE(has(ran.err, "dry GPU 1 (T4): at most 0 B")) << ran.err;
  EXPECT_TRUE(has(ran.err, "1 allocation\n")) << ran.err;
  EXPECT_TRUE(has(tenfold("dry --list").out, "NVIDIA H100 80GB HBM3"));
}

TEST_F(Dry, TheExitCodeIsTheProgramsAndWhoAsksForNoGpuIsTold) {
  const Ran ran = tenfold("dry -- sh -c 'exit 7'");
  EXPECT_EQ(ran.code, 7);
  EXPECT_TRUE(has(ran.err, "sh asked for no GPU through CUDA 13's runtime")) << ran.err;
}

TEST_F(Dry, BadInputIsOneLine) {
  for (const auto& [flags, part] : {std::pair("", "what is to run?"),
                                    {"--gpu V100 -- true", "--gpu: 'V100' is no dry GPU; known: T4, "},
                                    {"--gpus 0 -- true", "--gpus 0: expected 1 to 64"},
                                    {"true", "unknown argument 'true'"},
                                    {"-- /no/such/program", "cannot be started"}}) {
    const Ran ran = tenfold(std::string("dry ") + flags);
    EXPECT_EQ(ran.code, 2) << flags;
    EXPECT_TRUE(has(ran.err, part)) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
  fs::remove(root_ / "build/common/dry_gpu");
  EXPECT_TRUE(has(tenfold("dry -- true").err, "libtenfold_dry_cudart.so is not built"));
}

}  // namespace
}  // namespace tenfold
