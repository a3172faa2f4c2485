// Unchanged LibTorch on a card that is not there: its allocator, its workspaces, its errors, its graphs. Started with
// the stand-ins preloaded; TENFOLD_DRY_GPU names the card.

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "common/measure/dry.h"
#include "common/measure/memory.h"

namespace tenfold {
namespace {

using torch::Tensor;
constexpr double kMiB = 1 << 20;

const torch::Device kCard(torch::kCUDA, 0);

/// The largest number of bytes that were requested at once meanwhile, above what there was.
template <class Work>
int64_t peak_of(Work&& work) {
  reset_peak(kCard);
  const int64_t before = live_bytes(kCard);
  work();
  synchronize(kCard);
  return peak_bytes(kCard) - before;
}

/// LibTorch makes its allocator when the first tensor asks for it.
class MakeAllocator : public testing::Environment {
  void SetUp() override { torch::empty({1}, kCard); }
};
[[maybe_unused]] const auto* const kMakeAllocator = testing::AddGlobalTestEnvironment(new MakeAllocator);

int capability() { return at::cuda::getDeviceProperties(0)->major; }

TEST(DryTorch, BelievesInTheCard) {
  ASSERT_TRUE(torch::cuda::is_available());
  EXPECT_EQ(torch::cuda::device_count(), 2U) << "TENFOLD_DRY_GPUS";
  EXPECT_EQ(at::cuda::getDeviceProperties(0)->multiProcessorCount, capability() == 9 ? 132 : 108);
}

TEST(DryTorch, BytesAreTheAllocatorsOwn) {
  EXPECT_EQ(peak_of([] { torch::empty({1000}, kCard); }), 4000);
  EXPECT_EQ(peak_of([] {
              const Tensor a = torch::empty({1 << 20}, kCard);
              const Tensor b = a + a, c = b * 2;
            }),
            3 * (4 << 20));
}

// What LibTorch asks of its own allocator for cuBLAS: 32 MiB for each handle and stream on 9.0, 8.125 MiB elsewhere
// (ATen/cuda/CUDABlas.cpp).
TEST(DryTorch, WorkspacesAreThoseOfTheCapability) {
  const auto product = [] { torch::mm(torch::empty({64, 64}, kCard), torch::empty({64, 64}, kCard)); };
  product();
  EXPECT_LT(peak_of(product), 1 << 20) << "the handle's workspace is there";
  const auto on_a_side_stream = [&] {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, 0));
    product();
  };
  EXPECT_NEAR(static_cast<double>(peak_of(on_a_side_stream)) / kMiB, capability() == 9 ? 32 : 8.125, 0.1);
}

// One step of AdamW on sum(x W): weight, gradient and two averages rest; the product and its gradient come on top.
TEST(DryTorch, AStepTakesWhatItsFormulaSays) {
  const int64_t rows = 8192, width = 4096;
  torch::nn::Linear layer(torch::nn::LinearOptions(width, width).bias(false));
  const Tensor x = torch::empty({rows, width}, kCard);
  layer->to(kCard);
  torch::optim::AdamW optimizer(layer->parameters());
  const auto step = [&] {
    optimizer.zero_grad();
    layer(x).sum().backward();
    optimizer.step();
  };
  step();
  // The weight's gradient goes before forward and comes again in backward; the optimizer's passing tensors are smaller.
  const int64_t product = rows * width * 4, scalars = 2 * 4;
  EXPECT_EQ(peak_of(step), 2 * product + scalars);
}

TEST(DryTorch, OutOfMemoryIsLibTorchsOwnAndOnesGoesOn) {
  const int64_t whole = device_memory_bytes(kCard);
  try {
    torch::empty({whole}, torch::dtype(torch::kByte).device(kCard));
    FAIL() << "does not fit";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("CUDA out of memory. Tried to allocate"));
  }
  const Tensor most = torch::empty({whole / 10 * 9}, torch::dtype(torch::kByte).device(kCard));
  EXPECT_THROW(torch::empty({whole / 5}, torch::dtype(torch::kByte).device(kCard)), c10::OutOfMemoryError);
  EXPECT_EQ(torch::ones({3}, kCard).numel(), 3);
}

int64_t free_on_card() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return static_cast<int64_t>(free);
}

// Expandable segments map 20 MiB at a time behind addresses that they have reserved for all of the card.
TEST(DryTorch, ASegmentThatExpandsTakesWhatItMapsAndGivesItBack) {
  constexpr int64_t kMapped = int64_t{20} << 20;
  c10::cuda::CUDACachingAllocator::emptyCache();
  const int64_t before = free_on_card();
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  {
    const auto bytes = torch::dtype(torch::kByte).device(kCard);
    torch::empty({int64_t{30} << 20}, bytes);
    EXPECT_EQ(before - free_on_card(), 2 * kMapped);
    const Tensor longer = torch::empty({int64_t{50} << 20}, bytes);
    EXPECT_EQ(before - free_on_card(), 3 * kMapped) << "the block that is free has grown";
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_EQ(free_on_card(), before);
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:False");
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  statm >> whole >> resident;
  return resident * 4096;
}

TEST(DryTorch, AFullCardCostsNoRam) {
  const int64_t before = resident_bytes();
  const Tensor most = torch::zeros({device_memory_bytes(kCard) / 40 * 9}, kCard);
  const Tensor sum = most.sum();
  synchronize(kCard);
  // What LibTorch keeps of a kernel that it launches for the first time, not of 71 GB.
  EXPECT_LT(resident_bytes() - before, 64 << 20);
}

TEST(DryTorch, KernelsThatAreCompiledAtRunTimeAreLaunched) {
  const torch::Tensor values = torch::ones({64}, kCard);
  const torch::Tensor integers = torch::ones({64}, torch::TensorOptions(kCard).dtype(torch::kInt64));
  const int64_t before = dry_counts().launches;
  for (int again = 0; again < 2; ++again) torch::exp2(values);
  torch::gcd(integers, integers);
  EXPECT_EQ(dry_counts().launches - before, 3);
}

TEST(DryTorch, AGraphIsCapturedAndReplayed) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, 0));
  const Tensor a = torch::empty({64}, kCard);
  Tensor b;
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  b = a * 2 + 1;
  graph.capture_end();
  for (int i = 0; i < 3; ++i) graph.replay();
  synchronize(kCard);
  at::cuda::CUDAGraph bad;
  bad.capture_begin();
  EXPECT_ANY_THROW(b.sum().item<float>()) << "a wait must not be captured";
  EXPECT_ANY_THROW(bad.capture_end());
  synchronize(kCard);
}

TEST(DryTorch, SeveralCardsHaveMemoryOfTheirOwn) {
  const torch::Device second(torch::kCUDA, 1);
  const int64_t before = live_bytes(kCard);
  const Tensor there = torch::empty({1 << 20}, second);
  EXPECT_EQ(live_bytes(kCard), before);
  EXPECT_EQ(live_bytes(second), 4 << 20);
  const Tensor here = there.to(kCard);
  EXPECT_EQ(live_bytes(kCard) - before, 4 << 20);
  EXPECT_THROW(torch::empty({1}, torch::Device(torch::kCUDA, 2)), c10::Error);
}

TEST(DryTorch, ConvolutionsRunWithoutCudnnsWorkspace) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(3, 64, 3).padding(1));
  layer->to(kCard);
  const Tensor images = torch::empty({32, 3, 64, 64}, kCard);
  EXPECT_NEAR(static_cast<double>(peak_of([&] { layer(images); })), 32.0 * 64 * 64 * 64 * 4, 1 << 20);
  layer(images).sum().backward();
  synchronize(kCard);
  EXPECT_TRUE(layer->weight.grad().defined());
}

// The real library would fail in its own words, of a device that it cannot find.
TEST(DryTorch, WhatIsNotStoodInForIsSaid) {
  testing::internal::CaptureStderr();
  EXPECT_ANY_THROW(torch::fft::fft(torch::empty({8, 16}, torch::dtype(torch::kComplexFloat).device(kCard))));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("is not stood in for"));
}

}  // namespace
}  // namespace tenfold
