#include <gtest/gtest.h>

#include "host_stream.h"
#include "pinned_staging.h"

namespace {

using tenfold::PinnedStaging;
using torch::Tensor;

// Without a GPU there is nothing to lock pages for: the ring's logic is the same with ordinary memory.
TEST(PinnedStaging, GathersThePickedRows) {
  torch::manual_seed(1);
  const Tensor rows = torch::randn({50, 3, 4});
  PinnedStaging staging(torch::kCPU, 3, /*pinned=*/false);
  for (int i = 0; i < 7; ++i) {
    const Tensor picked = torch::randint(0, 50, {8}, torch::kLong);
    EXPECT_TRUE(torch::equal(staging.to_device(rows, picked, i % 2 == 0), rows.index_select(0, picked)));
  }
}

TEST(PinnedStaging, UsesItsSlotsInTurn) {
  const Tensor rows = torch::arange(20).view({10, 2});
  PinnedStaging staging(torch::kCPU, 2, /*pinned=*/false);
  const Tensor picked = torch::tensor({1, 2, 3});
  const void* first = staging.to_device(rows, picked, false).data_ptr();
  const void* second = staging.to_device(rows, picked, false).data_ptr();
  EXPECT_NE(first, second);
  EXPECT_EQ(staging.to_device(rows, picked, false).data_ptr(), first);
  EXPECT_EQ(staging.to_device(rows, picked, false).data_ptr(), second);
}

TEST(PinnedStaging, TheLastTwoBatchesAreIntact) {
  const Tensor rows = torch::arange(10);
  PinnedStaging staging(torch::kCPU, 2, /*pinned=*/false);
  const Tensor a = staging.to_device(rows, torch::tensor({0, 1}), false);
  const Tensor b = staging.to_device(rows, torch::tensor({2, 3}), false);
  EXPECT_TRUE(torch::equal(a, torch::tensor({0, 1})));
  EXPECT_TRUE(torch::equal(b, torch::tensor({2, 3})));
}

TEST(PinnedStaging, ASlotAdaptsToAnotherBatchSizeAndType) {
  PinnedStaging staging(torch::kCPU, 1, /*pinned=*/false);
  const Tensor floats = torch::randn({6, 2});
  EXPECT_EQ(staging.to_device(floats, torch::tensor({0, 1, 2}), false).size(0), 3);
  EXPECT_EQ(staging.to_device(floats, torch::tensor({5}), false).size(0), 1);
  EXPECT_EQ(staging.to_device(floats.to(torch::kLong), torch::tensor({5}), false).dtype(), torch::kLong);
}

TEST(PinnedStaging, AThreadGathersTheNextBatchWhileThisOneIsRead) {
  torch::manual_seed(2);
  const Tensor rows = torch::randn({1000, 64});
  PinnedStaging staging(torch::kCPU, 2, /*pinned=*/false);
  tenfold::HostStream thread;
  const auto gather_next = [&](const Tensor& picked) {
    thread.run([&staging, &rows, picked] { staging.gather(rows, picked); });
    return thread.record();
  };
  Tensor picked = torch::randint(0, 1000, {128}, torch::kLong);
  auto gathered = gather_next(picked);
  for (int i = 0; i < 200; ++i) {
    gathered.synchronize();
    const Tensor batch = staging.send(/*non_blocking=*/true), expected = rows.index_select(0, picked);
    picked = torch::randint(0, 1000, {128}, torch::kLong);
    gathered = gather_next(picked);
    ASSERT_TRUE(torch::equal(batch, expected)) << "batch " << i;
  }
}

TEST(PinnedStaging, RefusesToSendWhatWasNotGathered) {
  PinnedStaging staging(torch::kCPU, 2, false);
  EXPECT_THROW(staging.send(false), c10::Error);
}

TEST(PinnedStaging, RefusesNoSlots) { EXPECT_THROW(PinnedStaging(torch::kCPU, 0, false), c10::Error); }

TEST(PinnedStaging, CudaCopiesFromPinnedMemory) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  const Tensor rows = torch::randn({1000, 1 << 12});
  PinnedStaging staging(torch::Device(torch::kCUDA, 0), 2, /*pinned=*/true);
  for (int i = 0; i < 20; ++i) {
    const Tensor picked = torch::randint(0, 1000, {256}, torch::kLong);
    const Tensor expected = rows.index_select(0, picked);
    EXPECT_TRUE(torch::equal(staging.to_device(rows, picked, true).cpu(), expected))
        << "batch " << i << " was overwritten under way";
  }
}

}  // namespace
