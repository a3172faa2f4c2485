// fit: what fits on cards that are not there.

#include <nlohmann/json.hpp>

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class Fit : public Sandbox {
 protected:
  void SetUp() override {
    if (!fs::exists(test::build_folder() / "tenfold-fit")) GTEST_SKIP() << "no dry GPU is built";
    fs::create_directories(root_ / "build/common");
    fs::create_directory_symlink(test::build_folder() / "common/dry_gpu", root_ / "build/common/dry_gpu");
    fs::create_symlink(test::build_folder() / "tenfold-fit", root_ / "build/tenfold-fit");
  }
};

// Over 3072 tokens: the gradient of the embedding is then sorted by CUB, which asks what the kernels were compiled for.
TEST_F(Fit, OneWayOnTwoCards) {
  const Ran ran =
      tenfold("fit --layers 2 --width 128 --length 4096 --vocabulary 256 --with checkpointing --gpu rtx-4090 --gpu t4");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "2 layers, width 128, 1 heads, vocabulary 256; 1 x 4096 tokens an update")) << ran.out;
  const size_t first = ran.out.find("\nT4: Tesla T4, 14.8 GiB"), second = ran.out.find("\nRTX-4090: NVIDIA GeForce");
  EXPECT_LT(first, second) << ran.out;
  EXPECT_NE(second, std::string::npos) << ran.out;
  EXPECT_TRUE(has(ran.out, "fits with: checkpointing")) << ran.out;
}

TEST_F(Fit, ALadderAsJson) {
  // 141 million parameters: 16 bytes of each fit on 14.8 GiB, and 16 long sequences at once do not.
  const Ran ran = tenfold("fit --layers 6 --width 1024 --length 2048 --batch 16 --gpu T4 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto document = nlohmann::json::parse(ran.out);
  const auto& card = document.at("cards").at(0);
  EXPECT_EQ(card.at("card"), "T4");
  EXPECT_EQ(card.at("sizes").at("heads"), 8) << "of width 128";
  EXPECT_EQ(card.at("ladder").size(), 6u) << "a T4 has no bfloat16";
  EXPECT_FALSE(card.at("ladder").at(0).at("fits").get<bool>());
  EXPECT_GT(card.at("ladder").at(0).at("reserved_bytes").get<int64_t>(), card.at("memory_bytes").get<int64_t>());
  EXPECT_TRUE(card.at("smallest").at("fits").get<bool>());
  EXPECT_LE(card.at("smallest").at("reserved_bytes").get<int64_t>(),
            card.at("memory_bytes").get<int64_t>() - card.at("spare_bytes").get<int64_t>());
  EXPECT_GT(card.at("most_at_once").get<int64_t>(), 0);
  EXPECT_LT(document.at("host_peak_bytes").get<int64_t>(), int64_t{2} << 30);
}

TEST_F(Fit, WhatACardCannotDoIsLeftOut) {
  const Ran ran = tenfold("fit --layers 2 --width 128 --gpu T4 --with 16-bit-weights");
  EXPECT_EQ(ran.code, 77) << ran.err;
  EXPECT_TRUE(has(ran.out, "T4: not counted: 16-bit-weights is for cards with bfloat16")) << ran.out;
}

TEST_F(Fit, BadInputIsOneLine) {
  for (const auto& [flags, part] :
       {std::pair("", "--layers is missing; for example: ./tenfold fit --layers 32 --width 4096"),
        {"--layers 2 --width 100 --heads 3", "--heads 3 does not divide --width 100"},
        {"--layers 0 --width 128", "--layers 0: expected 1 to 1024"},
        {"--layers 2 --width 128 --gpu V100", "--gpu: 'V100' is no dry GPU; known: T4, "},
        {"--layers 2 --width 128 --with chunked", "'chunked' is no lever"},
        {"--layer 2", "did you mean '--layers'?"}}) {
    const Ran ran = tenfold(std::string("fit ") + flags);
    EXPECT_EQ(ran.code, 2) << flags;
    EXPECT_TRUE(has(ran.err, part)) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(ran.out, "") << flags;
  }
  fs::remove(root_ / "build/tenfold-fit");
  EXPECT_TRUE(has(tenfold("fit --layers 2 --width 128").err, "tenfold-fit is not built"));
}

}  // namespace
}  // namespace tenfold
