// Ways to train, counted on a dry H100 by LibTorch's allocator. Started with the stand-ins preloaded.
#include "fit/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "common/harness/dry_start.h"
#include "common/measure/memory.h"

namespace tenfold::fit {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
const torch::Device kCard(torch::kCUDA, 0);

/// States are nearly all of its memory.
constexpr Sizes kStates{.layers = 4, .width = 1024, .heads = 8, .length = 16, .batch = 1, .vocabulary = 2048};
/// Activations are.
constexpr Sizes kActivations{.layers = 4, .width = 256, .heads = 2, .length = 512, .batch = 8, .vocabulary = 8192};

class FitTraining : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    torch::empty({1}, kCard);  // LibTorch makes its allocator
    leave_weights_undrawn();
  }
  static Counted counted(const Sizes& sizes, const std::string& levers) {
    return train(sizes, way_of(levers_named(levers), sizes.batch), card_bytes());
  }
  static int64_t requested(const Sizes& sizes, const std::string& levers) {
    const Counted of = counted(sizes, levers);
    EXPECT_TRUE(of.fits) << of.error;
    EXPECT_LE(of.requested_bytes, of.allocated_bytes);
    EXPECT_LE(of.allocated_bytes, of.reserved_bytes);
    return of.requested_bytes;
  }
};

TEST_F(FitTraining, StatesTakeTheBytesThatLesson33Says) {
  const int64_t parameters = parameters_of(kStates);
  // Besides: cuBLAS's workspaces, 32 MiB for the forward and the backward thread each, and what an update has in
  // flight: a tensor of the largest weight's size, or in 8 bits some of a chunk's, of 4 D^2 numbers.
  const int64_t workspaces = 64 * kMiB, weight = 4 * kStates.width * kStates.width * 4;
  for (const auto& [levers, bytes] : {std::pair("none", 16), {"8-bit-adamw", 10}, {"16-bit-weights,8-bit-adamw", 6}}) {
    const int64_t of = requested(kStates, levers);
    EXPECT_GT(of, bytes * parameters) << levers;
    EXPECT_LT(of, bytes * parameters + workspaces + 6 * weight) << levers;
  }
}

TEST_F(FitTraining, EachLeverSavesWhatItIsFor) {
  const int64_t none = requested(kActivations, "none"), autocast = requested(kActivations, "autocast"),
                micro = requested(kActivations, "micro-batches"),
                checkpoints = requested(kActivations, "checkpointing"),
                chunks = requested(kActivations, "checkpointing,chunked-loss");
  EXPECT_LT(autocast, none);
  EXPECT_LT(micro, none / 2) << "one of eight sequences at a time";
  EXPECT_LT(checkpoints, none);
  EXPECT_LT(chunks, checkpoints) << "logits are most of what is left";
}

TEST_F(FitTraining, AFullCardIsLibTorchsError) {
  const int64_t needed = counted(kActivations, "none").reserved_bytes;
  const Way way = way_of({}, kActivations.batch);
  const Counted half = train(kActivations, way, needed / 2);
  EXPECT_FALSE(half.fits);
  EXPECT_THAT(half.error, testing::HasSubstr("CUDA out of memory"));
  EXPECT_THAT(half.stopped_in, testing::AnyOf("the forward pass", "the backward pass"));
  EXPECT_EQ(train(kActivations, way, kMiB).stopped_in, "the parameters");
  // What was stopped leaves nothing behind, and the next way is counted as if it were the first.
  EXPECT_LT(live_bytes(kCard), 96 * kMiB) << "cuBLAS's workspaces";
  const Counted again = train(kActivations, way, needed);
  EXPECT_TRUE(again.fits);
  EXPECT_EQ(again.reserved_bytes, needed);
}

TEST_F(FitTraining, MicroBatchesThatAreNotRunCountAsTheSecond) {
  const Levers levers = {Lever::micro_batches};
  const auto of = [&](int64_t batch) { return train(kActivations, way_of(levers, batch), card_bytes()); };
  const Counted two = of(2), eight = of(8);
  EXPECT_EQ(two.reserved_bytes, eight.reserved_bytes);
  ASSERT_TRUE(two.step_seconds && eight.step_seconds);
  EXPECT_GT(*eight.step_seconds, *two.step_seconds);
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  statm >> whole >> resident;
  return resident * 4096;
}

TEST_F(FitTraining, SevenBillionParametersTouchNoRam) {
  Sizes sizes{.layers = 32, .width = 4096, .heads = 32, .length = 4096, .batch = 1, .vocabulary = 32000};
  const int64_t before = resident_bytes();
  const Counted all = counted(sizes, "autocast,checkpointing,chunked-loss,8-bit-adamw");
  EXPECT_TRUE(all.fits) << all.error;
  EXPECT_GT(all.requested_bytes, 10 * parameters_of(sizes));
  EXPECT_LT(resident_bytes() - before, 512 * kMiB) << "LibTorch's own for kernels that are new; of 67 GB";
}

}  // namespace
}  // namespace tenfold::fit
