// What the graphs of lesson 25 ask of a card: launches, memory, and what is refused. Started with the stand-ins
// preloaded; nothing is computed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "lessons/25_cuda_graphs/captured_step.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;

const torch::Device kCard(torch::kCUDA, 0);
constexpr int64_t kNumbers = 16 << 20;  // 64 MiB, so that the allocator's rounding is small beside it

TEST(CapturedWork, IsOneLaunchForMany) {
  Tensor x = torch::zeros({64}, kCard);
  CapturedWork work(kCard, [&] {
    for (int i = 0; i < 50; ++i) x.add_(1);
  });
  for (int i = 0; i < 2; ++i) work.run();
  ASSERT_TRUE(work.captured());
  const DryCounts before = dry_counts();
  work.run();
  const DryCounts after = dry_counts();
  EXPECT_EQ(after.graph_launches - before.graph_launches, 1);
}

// What a replay uses was allocated at the capture, and freed as far as the allocator's statistics know.
TEST(CapturedWork, BypassesTheStatisticsOfWhatIsAllocatedButNotOfWhatIsReserved) {
  const Tensor x = torch::zeros({kNumbers}, kCard);
  Tensor sum;
  const auto work = [&] { sum = (x * 2 + 1).sum(); };
  const auto peaks_of = [&](const std::function<void()>& step) {
    const MemoryWatch memory({kCard});
    for (int i = 0; i < 2; ++i) step();
    memory.reset_peaks();
    for (int i = 0; i < 2; ++i) step();
    return memory.peaks();
  };
  auto plain = peaks_of(work);
  CapturedWork captured(kCard, work);
  auto replayed = peaks_of([&] { captured.run(); });
  constexpr int64_t kTensor = 4 * kNumbers;
  EXPECT_GE(plain["requested"], 2 * kTensor);
  EXPECT_LT(replayed["requested"], kTensor / 100) << "the mirage";
  EXPECT_GE(replayed["reserved"], plain["reserved"]);
}

// Last: LibTorch is in the middle of a capture afterwards.
TEST(CapturedWorkRefused, AStepThatReadsAValue) {
  const Tensor x = torch::zeros({64}, kCard);
  CapturedWork work(kCard, [&] { x.sum().item<float>(); });
  EXPECT_NO_THROW(work.run()) << "launched one by one";
  EXPECT_THAT(test::message_of<std::runtime_error>([&] { work.run(); }),
              testing::HasSubstr("this work cannot be captured"));
}

}  // namespace
}  // namespace tenfold
