// What the graphs of lesson 25 ask of a card: launches, memory, and what is refused. Started with the stand-ins
// preloaded; nothing is computed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/25_cuda_graphs/capturable_adamw.h"
#include "lessons/25_cuda_graphs/captured_step.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
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

// One graph for each shape, the largest first.
TEST(CapturedWork, GraphsOfWhichOneRunsAtATimeShareAPool) {
  const Tensor x = torch::zeros({kNumbers}, kCard);
  const auto reserved_by = [&](const std::vector<int64_t>& shapes, const GraphPool& pool) {
    const auto reserved = [] {
      c10::cuda::CUDACachingAllocator::emptyCache();
      return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
    };
    const int64_t before = reserved();
    std::vector<Tensor> sums(shapes.size());
    std::vector<std::unique_ptr<CapturedWork>> graphs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto work = [&, i] { sums[i] = (x.narrow(0, 0, shapes[i]) * 2 + 1).sum(); };
      graphs.push_back(std::make_unique<CapturedWork>(kCard, work, /*warm_up=*/1, pool));
      for (int call = 0; call < 2; ++call) graphs.back()->run();
      EXPECT_TRUE(graphs.back()->captured());
    }
    return reserved() - before;
  };
  const int64_t largest = reserved_by({kNumbers}, {});
  const std::vector<int64_t> shapes = {kNumbers, kNumbers / 2, kNumbers / 4};
  EXPECT_GE(largest, 2 * 4 * kNumbers);
  EXPECT_GE(reserved_by(shapes, {}), 3 * largest / 2) << "each keeps its own";
  EXPECT_EQ(reserved_by(shapes, new_graph_pool()), largest);
}

TEST(StaticInputs, OfABatchOnTheHostLieOnTheCard) {
  StaticInputs inputs(kCard);
  EXPECT_EQ(inputs.fill({torch::ones({4, 3})})[0].device(), kCard);
}

// A loader that pins a batch, or makes a tensor on the card, in the middle of a capture.
TEST(CapturedWork, OtherThreadsMayAllocateWhileItIsCaptured) {
  const Tensor x = torch::zeros({64}, kCard);
  CapturedWork work(kCard, [&] {
    x.add_(1);
    // Beyond what the allocators keep, so that both ask the driver.
    std::thread([] {
      (void)torch::empty({kNumbers}, torch::TensorOptions().pinned_memory(true));
      void* memory = nullptr;
      (void)cudaMalloc(&memory, 4 * kNumbers);
    }).join();
  });
  for (int i = 0; i < 2; ++i) ASSERT_NO_THROW(work.run());
  EXPECT_TRUE(work.captured());
}

// An exception that is no error of LibTorch's: a loader's, say.
TEST(CapturedWork, IsCapturedByTheNextCallWhenTheWorkThrew) {
  Tensor x = torch::zeros({64}, kCard);
  int calls = 0;
  CapturedWork work(kCard, [&] {
    x.add_(1);
    if (++calls == 2) throw std::out_of_range("the second call");
  });
  work.run();
  EXPECT_THROW(work.run(), std::out_of_range);
  EXPECT_FALSE(work.captured());
  ASSERT_NO_THROW(work.run());
  EXPECT_TRUE(work.captured());
}

// Whether an update is left out is decided on the card.
TEST(CapturedWork, AnUpdateOfFp16IsCapturedWhole) {
  const Tensor weight = torch::ones({64, 64}, kCard).requires_grad_(), x = torch::ones({8, 64}, kCard);
  CapturableAdamW optimizer({weight}, torch::optim::AdamWOptions(1e-3));
  Tensor scale = torch::full({}, 1024.F, kCard), found_inf = torch::zeros_like(scale);
  const Tensor one = torch::ones_like(scale);
  Tensor growth = torch::zeros({}, torch::TensorOptions(kCard).dtype(torch::kInt));
  CapturedWork work(kCard, [&] {
    weight.mutable_grad() = Tensor();
    {
      const Autocast scope(torch::kCUDA, torch::kHalf);
      (x.mm(weight).sum() * scale).backward();
    }
    found_inf.zero_();
    at::_amp_foreach_non_finite_check_and_unscale_({weight.grad()}, found_inf, one);
    optimizer.step(scale, found_inf);
    at::_amp_update_scale_(scale, growth, found_inf, 2, 0.5, 2000);
  });
  for (int call = 0; call < 2; ++call) ASSERT_NO_THROW(work.run());
  EXPECT_TRUE(work.captured());
}

// 2.11 reads where a generator stands within the graph, and puts it back there; older versions refuse both.
TEST(CapturedWork, ACheckpointedBlockDrawsTheSameNumbersAgain) {
  for (const bool keep : {true, false}) {
    const Tensor x = torch::ones({64, 64}, kCard).requires_grad_();
    const auto state = [] { return at::globalContext().defaultGenerator(kCard).get_state(); };
    std::vector<Tensor> states;  // before forward, before the recomputation, behind it
    const auto block = [&](const Tensor& t) {
      states.push_back(state());
      return torch::dropout(t.mm(t), 0.5, /*train=*/true);
    };
    CapturedWork work(kCard, [&] {
      x.mutable_grad() = Tensor();
      states.clear();
      checkpoint_with({.keep_random_state = keep}, block, x).sum().backward();
      states.push_back(state());
    });
    for (int call = 0; call < 2; ++call) ASSERT_NO_THROW(work.run());
    EXPECT_TRUE(work.captured());
    ASSERT_EQ(states.size(), 3);
    EXPECT_EQ(states[1].equal(states[0]), keep);
    EXPECT_FALSE(states[2].equal(states[0])) << "the next block draws on";
  }
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
