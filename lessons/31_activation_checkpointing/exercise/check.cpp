#include <gtest/gtest.h>

#include EXERCISE

#include "common/measure/memory.h"

namespace {

using torch::Tensor;

constexpr int64_t kLayers = 8, kRows = 1024, kWidth = 16;

std::vector<torch::nn::Sequential> model() {
  torch::manual_seed(31);
  std::vector<torch::nn::Sequential> blocks;
  for (int64_t i = 0; i < kLayers; ++i) {
    blocks.emplace_back(torch::nn::Linear(kWidth, 4 * kWidth), torch::nn::GELU(), torch::nn::Dropout(0.1),
                        torch::nn::Linear(4 * kWidth, kWidth));
  }
  return blocks;
}

struct Trained {
  int64_t peak_bytes;
  Tensor gradient;
};

Trained step(int64_t recomputed) {
  auto blocks = model();
  const tenfold::CountCpuMemory counting;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  const Tensor input = torch::ones({kRows, kWidth}).requires_grad_();
  tenfold::reset_peak(torch::kCPU);
  torch::manual_seed(32);
  forward_with(blocks, recomputed, input).pow(2).sum().backward();
  return {tenfold::peak_bytes(torch::kCPU) - before, input.grad()};
}

TEST(Exercise31, NothingIsRecomputedWhenAllFits) { EXPECT_EQ(fewest_recomputed(10, {1, 20}, 200), 0); }

TEST(Exercise31, AsManyAsNeededAndNoMore) {
  EXPECT_EQ(fewest_recomputed(10, {1, 20}, 199), 1) << "hint: one recomputed block already saves 19";
  EXPECT_EQ(fewest_recomputed(10, {1, 20}, 105), 5) << "hint: 5 blocks kept, 5 inputs";
  EXPECT_EQ(fewest_recomputed(10, {1, 20}, 30), 9) << "hint: 9 inputs and one whole block are alive at a time";
}

TEST(Exercise31, TheRecomputedBlockCountsToo) {
  EXPECT_EQ(fewest_recomputed(10, {1, 20}, 28), -1)
      << "hint: while a block is recomputed, all of it is alive, next to all inputs";
  EXPECT_EQ(fewest_recomputed(1, {5, 20}, 22), 0) << "hint: a single block that fits is kept";
}

TEST(Exercise31, RecomputingSavesMemory) {
  const int64_t all_kept = step(0).peak_bytes, half = step(kLayers / 2).peak_bytes,
                none_kept = step(kLayers).peak_bytes;
  EXPECT_LT(half, all_kept * 3 / 4) << "hint: are the first blocks checkpointed?";
  EXPECT_LT(none_kept, half * 3 / 4);
}

TEST(Exercise31, GradientsStayTheSame) {
  const Tensor reference = step(0).gradient;
  for (const int64_t recomputed : {int64_t{3}, kLayers}) {
    EXPECT_TRUE(torch::equal(step(recomputed).gradient, reference)) << "with " << recomputed << " recomputed blocks";
  }
}

}  // namespace
