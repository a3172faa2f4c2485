// Each block of a step gets the kind that it has, and every byte is there once.
#include "memory_kinds.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "by_formula.h"
#include "common/harness/lesson.h"
#include "common/measure/memory.h"

namespace tenfold {
namespace {

using torch::Tensor;
constexpr int64_t kKiB = 1024;

/// A linear layer without bias, of 64 x 64 weights: 16 KiB, trained with momentum on 128 rows: 32 KiB.
MemoryOfStep linear_step(bool set_to_none, int micro_batches = 1) {
  MemoryKinds watch(torch::kCPU);
  torch::nn::Linear layer(torch::nn::LinearOptions(64, 64).bias(false));
  torch::optim::SGD optimizer(layer->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0;; ++step) {
    watch.begin_step(layer->parameters());
    optimizer.zero_grad(set_to_none);
    const Tensor x = torch::ones({128, 64});
    for (int i = 0; i < micro_batches; ++i) {
      watch.begin(Pass::forward);
      Tensor loss = layer->forward(x).sigmoid().sum();  // sigmoid keeps its result, the layer its input
      watch.begin(Pass::backward);
      loss.backward();
    }
    watch.begin(Pass::update);
    optimizer.step();
    if (step == 2) return watch.end_step();
  }
}

TEST(MemoryKinds, EachKindHasItsBytes) {
  const MemoryOfStep step = linear_step(true);
  const MemoryMoment &peak = step.peak(), &end = step.end();
  EXPECT_EQ(peak.of(MemoryKind::parameters), 16 * kKiB);
  EXPECT_EQ(peak.of(MemoryKind::optimizer_state), 16 * kKiB);
  EXPECT_EQ(peak.of(MemoryKind::inputs), 32 * kKiB);
  EXPECT_NEAR(peak.of(MemoryKind::activations), 32 * kKiB, 64) << "the sigmoid's result, and the loss";
  EXPECT_EQ(peak.of(MemoryKind::others), 0);
  EXPECT_EQ(end.of(MemoryKind::gradients), 16 * kKiB);
  EXPECT_EQ(end.of(MemoryKind::temporary), 0);
  EXPECT_EQ(end.pass, Pass::update);
}

TEST(MemoryKinds, FreedGradientsAreNotThereInForward) {
  for (const bool set_to_none : {true, false}) {
    const MemoryOfStep step = linear_step(set_to_none);
    for (const MemoryMoment& moment : step.moments) {
      if (moment.pass == Pass::forward) EXPECT_EQ(moment.of(MemoryKind::gradients), set_to_none ? 0 : 16 * kKiB);
    }
    EXPECT_EQ(step.moments.front().of(MemoryKind::gradients), 16 * kKiB) << "of the step before";
  }
}

TEST(MemoryKinds, MicroBatchesKeepTheirActivationsInTurn) {
  const MemoryOfStep step = linear_step(true, 3);
  for (const MemoryMoment& moment : step.moments) EXPECT_LE(moment.of(MemoryKind::activations), 32 * kKiB + 64);
  EXPECT_EQ(step.end().of(MemoryKind::gradients), 16 * kKiB);
}

TEST(MemoryKinds, NothingIsNegative) {
  for (const bool set_to_none : {true, false}) {
    for (const MemoryMoment& moment : linear_step(set_to_none, 2).moments) {
      for (const int64_t bytes : moment.bytes) EXPECT_GE(bytes, 0);
    }
  }
}

TEST(MemoryKinds, WhatAnotherThreadHasFreedEndsWhenItsAddressIsUsedAgain) {
  MemoryKinds watch(torch::kCPU);
  watch.begin_step({});
  constexpr int64_t kLarge = 64 << 20;  // malloc maps it, and the next one lies where this one was
  Tensor block = torch::empty({kLarge}, torch::kByte);
  const void* address = block.data_ptr();
  std::thread([&block] { block.reset(); }).join();  // there nobody watches
  const Tensor again = torch::empty({kLarge}, torch::kByte);
  if (again.data_ptr() != address) GTEST_SKIP() << "malloc did not hand the address out again";
  EXPECT_EQ(watch.end_step().end().total(), kLarge) << "counted twice";
}

TEST(MemoryKinds, AnotherAllocatorReportsNothing) {
  const CountCpuMemory counting;  // counts malloc's sizes; the watch sees nothing behind it
  MemoryKinds watch(torch::kCPU);
  watch.begin_step({});
  {
    const Tensor unseen = torch::ones({1024});
  }
  EXPECT_EQ(watch.end_step().moments.size(), 1U) << "another allocator reports nothing";
}

TEST(MemoryKinds, AStepWithoutBlocksIsOneMoment) {
  MemoryKinds watch(torch::kCPU);
  watch.begin_step({});
  const MemoryOfStep step = watch.end_step();
  ASSERT_EQ(step.moments.size(), 1U);
  EXPECT_EQ(step.peak().total(), 0);
}

TEST(ByFormula, IsTheWorkloadsOwnPeak) {
  for (const Size size : {Size::cpu, Size::gpu8, Size::gpu80}) {
    EXPECT_NEAR(static_cast<double>(gpt_peak(gpt_options(size), "momentum").total()) /
                    static_cast<double>(step_peak_bytes(gpt_options(size))),
                1, 0.001);
    const ConvNetOptions convnet = convnet_of(size);
    const int64_t batch = convnet::kBatch.value.at(size);
    for (const torch::Device device : {torch::Device(torch::kCPU), torch::Device(torch::kCUDA)})
      EXPECT_NEAR(static_cast<double>(convnet_peak(convnet, batch, "momentum", device).total()) /
                      static_cast<double>(step_peak_bytes(convnet, batch, device)),
                  1, 0.001);
  }
}

}  // namespace
}  // namespace tenfold
