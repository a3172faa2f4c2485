// Arithmetic on two cards, of which the program's current one is the first.

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "common/dry_gpu/races.h"

namespace tenfold {
namespace {

using torch::Tensor;

const torch::Device kFirst(torch::kCUDA, 0), kSecond(torch::kCUDA, 1);

TEST(Cards, ComputeOnTheirOwnStreams) {
  dry::take_races();
  EXPECT_EQ(torch::ones(1, kSecond).item<float>(), 1);
  const Tensor x = torch::arange(64, torch::kFloat).to(kSecond);
  EXPECT_EQ((x * 2).sum().item<float>(), 63 * 64);
  EXPECT_EQ((x > 31).nonzero().sum().item<int64_t>(), (32 + 63) * 16);
  EXPECT_EQ(c10::cuda::current_device(), 0);
  EXPECT_THAT(dry::take_races(), testing::IsEmpty());
}

TEST(Cards, CopyFromOneToTheOther) {
  dry::take_races();
  const Tensor x = torch::arange(64, torch::kFloat).view({8, 8});
  const Tensor on_second = x.to(kSecond) * 1;
  EXPECT_TRUE((on_second.to(kFirst) * 1).cpu().equal(x));
  Tensor target = torch::zeros({8, 8}, kFirst);
  target.copy_(on_second.t());
  EXPECT_TRUE((target * 1).cpu().equal(x.t()));
  EXPECT_TRUE(target.to(kSecond).t().to(kFirst).cpu().equal(x));
  EXPECT_THAT(dry::take_races(), testing::IsEmpty());
}

TEST(Cards, DrawFromTheirOwnGenerators) {
  const auto drawn = [](uint64_t first, uint64_t second) {
    at::Generator(at::cuda::detail::getDefaultCUDAGenerator(0)).set_current_seed(first);
    at::Generator(at::cuda::detail::getDefaultCUDAGenerator(1)).set_current_seed(second);
    return torch::rand({64}, kSecond).cpu();
  };
  EXPECT_TRUE(drawn(1, 5).equal(drawn(2, 5)));
  EXPECT_FALSE(drawn(1, 5).equal(drawn(1, 6)));
}

TEST(Cards, TakeNoKernelForAnotherOnesStream) {
  using Register = void (*)(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
  const auto make_known = reinterpret_cast<Register>(dlsym(RTLD_DEFAULT, "__cudaRegisterFunction"));
  ASSERT_NE(make_known, nullptr);
  static const char kernel = 0;
  make_known(nullptr, &kernel, nullptr, "_Z5emptyv", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  const cudaStream_t stream = c10::cuda::getStreamFromPool(false, 1).stream();
  const auto launch = [stream] { return cudaLaunchKernel(&kernel, dim3(1), dim3(32), nullptr, 0, stream); };
  EXPECT_EQ(launch(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  const c10::cuda::CUDAGuard guard(kSecond);
  EXPECT_EQ(launch(), cudaSuccess);
}

}  // namespace
}  // namespace tenfold
