#include <gtest/gtest.h>

#include EXERCISE

namespace {

constexpr ModelSizes kModel{.parameters = 1000, .layers = 10, .input = 10, .block = 150, .logits = 300};

TEST(Exercise92, AllAtOnceTheLossIsTheHighest) {
  // 12 bytes a parameter, and of 8 sequences what ten blocks keep with three arrays of the logits.
  EXPECT_EQ(peak_bytes(kModel, 8, {}), 12'000 + 8 * (10 * 160 + 900))
      << "hint: no gradient exists yet when the loss's backward begins";
}

TEST(Exercise92, FewTokensLeaveTheUpdate) {
  EXPECT_EQ(peak_bytes({.parameters = 1000, .layers = 10, .input = 1, .block = 15, .logits = 30}, 1, {}), 16'000)
      << "hint: in the update all gradients are there, and no activation";
}

TEST(Exercise92, MicroBatchesShareActivationsOnly) {
  EXPECT_EQ(peak_bytes(kModel, 8, {.micro_batches = 4}), 16'000 + 2 * (10 * 160 + 900))
      << "hint: gradients of the micro-batches before are there during forward, too";
}

TEST(Exercise92, OneBlockIsRecomputedAtATime) {
  EXPECT_EQ(peak_bytes(kModel, 8, {.micro_batches = 4, .checkpointing = true}), 16'000 + 2 * (10 * 10 + 900))
      << "hint: at the loss only the blocks' inputs are kept";
  ModelSizes small_head = kModel;
  small_head.logits = 1;
  EXPECT_EQ(peak_bytes(small_head, 8, {.micro_batches = 4, .checkpointing = true}), 16'000 + 2 * (10 * 10 + 150))
      << "hint: with a small head the recomputed block is the highest moment";
}

TEST(Exercise92, AveragesShrinkOrLeave) {
  EXPECT_EQ(peak_bytes(kModel, 8, {.micro_batches = 4, .checkpointing = true, .eight_bit_adamw = true}),
            10'000 + 2 * (10 * 10 + 900))
      << "hint: two averages of a byte each, instead of four";
  EXPECT_EQ(
      peak_bytes(kModel, 8, {.micro_batches = 4, .checkpointing = true, .eight_bit_adamw = true, .offload = true}),
      8'000 + 2 * (10 * 10 + 900))
      << "hint: on the host averages take nothing here, however wide";
}

TEST(Exercise92, LeversForActivationsCannotHelpAgainstStates) {
  const ModelSizes states{.parameters = 1'000'000, .layers = 10, .input = 10, .block = 150, .logits = 300};
  EXPECT_EQ(peak_bytes(states, 1, {.checkpointing = true}), 16'000'000) << "hint: the update has no activations";
}

}  // namespace
