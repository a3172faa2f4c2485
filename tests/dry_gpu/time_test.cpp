// Modelled time on a dry GPU: what operators last, what overlaps, and where the host's clock jumps.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <string>
#include <vector>

#include "common/measure/clock.h"
#include "common/measure/dry.h"
#include "kernels/adamw/adamw_torch.h"
#include "kernels/flash_attention/flash_attention_torch.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_torch.h"
#include "tests/dry_gpu/time_support.h"

namespace tenfold {
namespace {

using c10::cuda::CUDAStream;

using test::expect_lasts;
using test::on_card;
using test::rates;
using test::seconds_of;

const at::Tensor& large() {
  static const at::Tensor made = at::empty({8192, 8192}, on_card());
  return made;
}

/// Runs beside the current stream, from where that is now; the current one goes on when it is done.
void beside(const std::function<void()>& work) {
  static const CUDAStream side = c10::cuda::getStreamFromPool();
  at::cuda::CUDAEvent begin, end;
  begin.record();
  begin.block(side);
  {
    const c10::cuda::CUDAStreamGuard guard(side);
    work();
  }
  end.record(side);
  at::mm(large(), large());
  end.block(c10::cuda::getCurrentCUDAStream());
}

TEST(Modelled, AProductLastsWhatItsTypeTakes) {
  constexpr int64_t kN = 4096;
  const double flops = 2.0 * kN * kN * kN;
  const at::Tensor a = at::empty({kN, kN}, on_card());
  at::globalContext().setAllowTF32CuBLAS(false);
  expect_lasts(flops / rates().fp32, [&] { at::mm(a, a); });
  at::globalContext().setAllowTF32CuBLAS(true);
  expect_lasts(flops / (rates().tf32 > 0 ? rates().tf32 : rates().fp32), [&] { at::mm(a, a); });
  at::globalContext().setAllowTF32CuBLAS(false);
  const at::Tensor half = a.to(at::kHalf), brain = a.to(at::kBFloat16);
  expect_lasts(flops / rates().half, [&] { at::mm(half, half); });
  expect_lasts(flops / rates().bfloat16, [&] { at::mm(brain, brain); });
  const at::Tensor batch = at::empty({4, 1024, 1024}, on_card(at::kHalf));
  expect_lasts(4 * 2.0 * 1024 * 1024 * 1024 / rates().half, [&] { at::bmm(batch, batch); });
}

TEST(Modelled, OtherOperatorsLastWhatTheirBytesTake) {
  constexpr double kMiB = 1 << 20;
  at::Tensor x = at::empty({64, 1 << 20}, on_card()), row = at::empty({1 << 20}, on_card());
  const double bytes = 64 * 4 * kMiB;
  expect_lasts(2 * bytes / rates().bytes_per_s, [&] { at::relu(x); });
  expect_lasts(2 * bytes / rates().bytes_per_s, [&] { x.mul_(2); });
  expect_lasts(bytes / rates().bytes_per_s, [&] { x.fill_(2); });
  // What is broadcast is read once.
  expect_lasts((2 * bytes + 4 * kMiB) / rates().bytes_per_s, [&] { at::add(x, row); });
  // Of what is looked up only the rows that are touched.
  const at::Tensor table = at::empty({50304, 768}, on_card()), ids = at::zeros({8192}, on_card(at::kLong));
  expect_lasts((8192 * 8 + 2.0 * 8192 * 768 * 4) / rates().bytes_per_s, [&] { at::embedding(table, ids); });
  // Weights, gradients and two momenta are read, weights and momenta written.
  std::vector<at::Tensor> weights = {x}, gradients = {at::empty_like(x)}, means = {at::empty_like(x)},
                          squares = {at::empty_like(x)}, none, steps = {at::zeros({}, on_card())};
  const double update = 7 * bytes + 2 * 4;
  const auto fused = [&] {
    at::_fused_adamw_(weights, gradients, means, squares, none, steps, 1e-3, 0.9, 0.99, 0, 1e-8, false, false);
  };
  // 1024 chunks of 65,536 numbers, 320 a launch (ATen/native/cuda/MultiTensorApply.cuh).
  expect_lasts(update / rates().bytes_per_s, fused, /*launches=*/4);
}

TEST(Modelled, AttentionAndConvolutionCountTheirProducts) {
  const at::Tensor q = at::empty({2, 12, 4096, 64}, on_card(at::kHalf));
  const double scores = 2.0 * 12 * 4096 * 4096 * 64;
  expect_lasts(4 * scores / 2 / rates().half,
               [&] { at::scaled_dot_product_attention(q, q, q, {}, 0, /*is_causal=*/true); });
  const at::TensorOptions last = on_card(at::kHalf).memory_format(at::MemoryFormat::ChannelsLast);
  const at::Tensor images = at::empty({64, 64, 56, 56}, last), kernel = at::empty({64, 64, 3, 3}, last);
  expect_lasts(2.0 * 64 * 64 * 56 * 56 * 64 * 9 / rates().half, [&] { at::conv2d(images, kernel, {}, 1, 1); });
}

// There autograd, which takes these operators apart elsewhere, is left out.
TEST(Modelled, InferenceModeChangesNoDuration) {
  const at::Tensor x = at::empty({2048, 1024}, on_card()), weight = at::empty({1024, 1024}, on_card()),
                   row = at::empty({1024}, on_card()), q = at::empty({2, 8, 256, 64}, on_card(at::kHalf)),
                   images = at::empty({16, 32, 28, 28}, on_card()), kernel = at::empty({32, 32, 3, 3}, on_card());
  const std::vector<std::pair<const char*, std::function<void()>>> all = {
      {"linear", [&] { at::linear(x, weight, row); }},
      {"matmul", [&] { at::matmul(x, weight); }},
      {"layer_norm", [&] { at::layer_norm(x, {1024}, row, row); }},
      {"attention", [&] { at::scaled_dot_product_attention(q, q, q, {}, 0, /*is_causal=*/true); }},
      {"conv2d", [&] { at::conv2d(images, kernel, {}, 1, 1); }},
      {"relu", [&] { at::relu(x); }}};
  for (const auto& [name, work] : all) {
    double without_gradients = 0, in_inference_mode = 0;
    {
      const at::NoGradGuard guard;
      without_gradients = seconds_of(work);
    }
    {
      const c10::InferenceMode guard;
      in_inference_mode = seconds_of(work);
    }
    EXPECT_NEAR(in_inference_mode, without_gradients, 1e-5 * without_gradients + 2e-7) << name;
  }
}

TEST(Modelled, AViewLastsNothingAndTheSmallestKernelSomething) {
  const at::Tensor x = at::empty({1024, 1024}, on_card()), one = at::empty({1}, on_card());
  EXPECT_EQ(seconds_of([&] { x.t().view({1024, 2, 512}).select(1, 0); }), 0);
  EXPECT_NEAR(seconds_of([&] { at::relu(one); }), rates().gap + rates().least, 1e-7);
  // From the size on at which its bytes take longer, they decide.
  const auto bytes = static_cast<int64_t>(4 * rates().least * rates().bytes_per_s);
  const at::Tensor some = at::empty({bytes}, on_card(at::kByte));
  expect_lasts(2 * static_cast<double>(bytes) / rates().bytes_per_s, [&] { at::relu(some); });
}

TEST(Modelled, AMemsetLastsLessThanAKernelAndACopyWithinTheCardAsLong) {
  const at::Tensor one = at::empty({16}, on_card()), other = at::empty({16}, on_card());
  const auto set = [&] { cudaMemsetAsync(one.data_ptr(), 0, one.nbytes(), c10::cuda::getCurrentCUDAStream()); };
  EXPECT_NEAR(seconds_of(set), rates().gap + rates().least_memset, 1e-7);
  EXPECT_NEAR(seconds_of([&] { one.copy_(other); }), rates().gap + rates().least, 1e-7);
  EXPECT_LT(rates().least_memset, rates().least);
}

// Each has a gap and a least time of its own.
TEST(Modelled, AnOperatorOfSeveralKernelsLastsAtLeastAllOfTheirs) {
  const std::vector<at::Tensor> few(2000, at::empty({1}, on_card()));
  const auto scale = [&] { at::_foreach_mul_(few, 2.0); };
  scale();
  const int64_t before = dry_counts().launches;
  scale();
  const auto launches = static_cast<double>(dry_counts().launches - before);
  ASSERT_GT(launches, 1);
  EXPECT_NEAR(seconds_of(scale), launches * (rates().gap + rates().least), 1e-6);
}

// Small kernels of two streams run side by side; two that keep the memory busy do not, however short they are.
TEST(Modelled, WhatKeepsTheMemoryBusyIsNotShared) {
  const auto bytes = static_cast<int64_t>(0.75 * rates().least * rates().bytes_per_s / 2);
  const at::Tensor some = at::empty({bytes}, on_card(at::kByte));
  const double work = 2 * static_cast<double>(bytes) / rates().bytes_per_s;
  constexpr int kKernels = 200;
  const auto chain = [&] {
    for (int i = 0; i < kKernels; ++i) at::relu(some);
  };
  const CUDAStream sides[] = {c10::cuda::getStreamFromPool(), c10::cuda::getStreamFromPool(),
                              c10::cuda::getStreamFromPool()};
  const double four = seconds_of([&] {
    at::cuda::CUDAEvent begin, ends[3];
    begin.record();
    for (int i = 0; i < 3; ++i) {
      begin.block(sides[i]);
      const c10::cuda::CUDAStreamGuard guard(sides[i]);
      chain();
      ends[i].record(sides[i]);
    }
    chain();
    for (at::cuda::CUDAEvent& end : ends) end.block(c10::cuda::getCurrentCUDAStream());
  });
  EXPECT_GE(four, 4 * kKernels * (work - rates().first_byte));
  EXPECT_LT(four, 4 * kKernels * (rates().gap + rates().least));
}

TEST(Modelled, PinnedCopiesOverlapAndPageableOnesAreWaitedFor) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  const double copy = rates().link_latency + kBytes / rates().link_bytes_per_s;
  at::Tensor target = at::empty({kBytes}, on_card(at::kByte));
  const at::Tensor pinned = at::empty({kBytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  const at::Tensor pageable = at::empty({kBytes}, at::kByte);
  const double product = seconds_of([] { at::mm(large(), large()); });
  EXPECT_NEAR(seconds_of([&] { beside([&] { target.copy_(pinned, /*non_blocking=*/true); }); }),
              std::max(copy, product), 1e-5);
  const Times waited = take_times(at::Device(at::kCUDA, 0), [&] { beside([&] { target.copy_(pageable, true); }); });
  EXPECT_GE(waited.device, 0.999 * (copy + product));
  EXPECT_GE(waited.wall, 0.999 * (copy + product)) << "the host's clock jumps to where it would go on";
}

TEST(Modelled, ACopyToAnotherCardGoesOverTheLinkBetweenThem) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  ASSERT_EQ(at::getNumGPUs(), 2);
  const at::Tensor source = at::empty({kBytes}, on_card(at::kByte));
  at::Tensor target = at::empty({kBytes}, on_card(at::kByte).device(at::Device(at::kCUDA, 1)));
  EXPECT_NEAR(seconds_of([&] { target.copy_(source); }), rates().link_latency + kBytes / rates().peer_bytes_per_s,
              1e-5);
}

TEST(Modelled, TwoStreamsShareTheCardButNotTheTimeUntilAKernelHasBegun) {
  const double product = seconds_of([] { at::mm(large(), large()); });
  EXPECT_NEAR(seconds_of([] { beside([] { at::mm(large(), large()); }); }), 2 * product, 1e-5);
  const at::Tensor one = at::empty({1}, on_card());
  constexpr int kSmall = 1000;
  const auto small = [&] {
    for (int i = 0; i < kSmall; ++i) at::relu(one);
  };
  const double alone = seconds_of(small);
  ASSERT_LT(alone, product);
  EXPECT_NEAR(seconds_of([&] { beside(small); }), product, 1e-5) << "beside a product they cost nothing";
}

TEST(Modelled, AGraphReplaysWithSmallerGaps) {
  const at::Tensor x = at::empty({1 << 10}, on_card());
  constexpr int kKernels = 200;
  const auto all = [&] {
    at::Tensor y = x;
    for (int i = 0; i < kKernels; ++i) y = y + 1;
  };
  EXPECT_NEAR(seconds_of(all), kKernels * (rates().gap + rates().least), 1e-6);
  const CUDAStream side = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(side);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  all();
  graph.capture_end();
  EXPECT_NEAR(seconds_of([&] { graph.replay(); }), kKernels * (rates().graph_gap + rates().least), 1e-6);
}

TEST(Modelled, WhoAsksInALoopSeesTheEnd) {
  at::cuda::CUDAEvent done;
  for (int i = 0; i < 100; ++i) at::mm(large(), large());
  done.record();
  EXPECT_FALSE(done.query());
  int64_t asked = 0;
  while (!done.query()) ASSERT_LT(++asked, 1000);
}

// GradScaler's flag, say: a step must not be skipped by what lay in memory.
TEST(Modelled, ANumberThatAKernelHasLeftReadsZero) {
  at::Tensor flag = at::ones({1}).to(at::kCUDA);
  EXPECT_EQ(flag.item<float>(), 1) << "a copy from the host is what it was";
  std::vector<at::Tensor> gradients = {at::empty({1024}, on_card())};
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, flag, at::ones({}).to(at::kCUDA));
  EXPECT_EQ(flag.item<float>(), 0);
  EXPECT_EQ(at::stack({flag, at::ones({1}).to(at::kCUDA)}).sum().item<float>(), 0);
}

TEST(Modelled, EveryKernelOfLibTorchHasAPrice) {
  taken_without_price();
  const at::Tensor x = at::empty({64, 256}, on_card());
  at::softmax(at::layer_norm(x, {256}), -1).sum();
  EXPECT_TRUE(taken_without_price().empty());
}

TEST(Modelled, OursLastWhatTheyMustDo) {
  taken_without_price();
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::empty({8192, 8192}, on_card());
  expect_lasts(2 * static_cast<double>(x.nbytes()) / rates().bytes_per_s, [&] { fused::softmax(x); });
  // In and out, in fp32's arithmetic and in that of 16 bits, which a T4's kernels have on CUDA cores alone.
  const at::Tensor q = at::empty({8, 16, 4096, 64}, on_card());
  const double flops = 2 * 2.0 * 8 * 16 * 4096 * 4097 / 2 * 64;  // a query sees itself and what is before it
  const auto attend = [&](const at::Tensor& all) { fused::flash_attention(all, all, all, /*causal=*/true); };
  expect_lasts(flops / rates().fp32, [&] { attend(q); });
  const at::Tensor half = q.to(at::kHalf);
  expect_lasts(flops / rates().bfloat16, [&] { attend(half); });
  const std::vector<at::Tensor> one = {x}, other = {x.clone()}, third = {x.clone()}, gradient = {x.clone()};
  expect_lasts(7 * static_cast<double>(x.nbytes()) / rates().bytes_per_s,
               [&] { fused::adamw_(one, other, third, gradient, {}, /*step=*/1); });
  EXPECT_TRUE(taken_without_price().empty());
}

TEST(Modelled, AKernelOfWhichNobodySpeaksIsNamed) {
  const at::Tensor x = at::empty({64, 256}, on_card()), out = at::empty_like(x);
  taken_without_price();
  kernels::softmax(c10::cuda::getCurrentCUDAStream().stream(), out.data_ptr<float>(), x.data_ptr<float>(), 64, 256);
  const std::vector<std::string> kernels = taken_without_price();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_NE(kernels.front().find("tenfold::kernels::softmax"), std::string::npos) << kernels.front();
}

}  // namespace
}  // namespace tenfold
