// Which rank computes on which GPU: decided from what all ranks see, so no GPU is needed to try it.
#include "common/harness/device_choice.h"

#include <gmock/gmock.h>

#include "common/base/flags.h"
#include "common/measure/device.h"

#include "tests/support/support.h"

namespace {

using tenfold::choose_device;
using tenfold::Surroundings;
using Ranks = std::vector<Surroundings>;

const Surroundings kTwoGpus{"alpha", {"a", "b"}};
const Surroundings kOtherTwo{"beta", {"c", "d"}};
const Surroundings kNoGpu{"alpha", {}, "Found no NVIDIA driver on your system"};

std::vector<torch::Device> devices(const std::string& wanted, const Ranks& ranks) {
  std::vector<torch::Device> all;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    all.push_back(choose_device(wanted, ranks, static_cast<int>(rank)).device);
  return all;
}

torch::Device gpu(int index) { return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)}; }

std::string refusal(const Ranks& ranks) {
  const auto said = [&](int rank) {
    return tenfold::test::message_of<tenfold::UsageError>([&] { choose_device("cuda", ranks, rank); });
  };
  for (size_t rank = 1; rank < ranks.size(); ++rank) EXPECT_EQ(said(static_cast<int>(rank)), said(0));
  EXPECT_EQ(said(0).find('\n'), std::string::npos);
  return said(0);
}

TEST(ChooseDevice, EachRankOfAHostHasAGpuOfItsOwn) {
  for (const std::string wanted : {"auto", "cuda"}) {
    EXPECT_EQ(devices(wanted, {kTwoGpus}), (std::vector{gpu(0)}));
    EXPECT_EQ(devices(wanted, {kTwoGpus, kTwoGpus}), (std::vector{gpu(0), gpu(1)}));
    EXPECT_EQ(devices(wanted, {kTwoGpus, kTwoGpus, kOtherTwo, kOtherTwo}),
              (std::vector{gpu(0), gpu(1), gpu(0), gpu(1)}));
    EXPECT_EQ(devices(wanted, {kTwoGpus, kOtherTwo, kTwoGpus}), (std::vector{gpu(0), gpu(0), gpu(1)}));
  }
}

// As Slurm binds them, and torchrun under a wrapper that sets CUDA_VISIBLE_DEVICES.
TEST(ChooseDevice, ALauncherMayShowEachRankOneGpu) {
  EXPECT_EQ(devices("cuda", {{"alpha", {"a"}}, {"alpha", {"b"}}}), (std::vector{gpu(0), gpu(0)}));
}

TEST(ChooseDevice, MoreRanksThanGpusMeetOnTheCpuOrAreRefused) {
  const Ranks ranks = {kTwoGpus, kTwoGpus, kTwoGpus};
  for (int rank = 0; rank < 3; ++rank) {
    const auto choice = choose_device("auto", ranks, rank);
    EXPECT_TRUE(choice.device.is_cpu());
    EXPECT_EQ(choice.remark, "alpha has 2 GPUs for 3 ranks, and NCCL needs one for each; running on the CPU");
  }
  EXPECT_EQ(refusal(ranks),
            "--device cuda: alpha has 2 GPUs for 3 ranks, and NCCL needs one for each; use --device cpu or start fewer "
            "ranks");
  EXPECT_EQ(refusal({{"alpha", {"a"}}, {"alpha", {"a"}}}),
            "--device cuda: alpha has 1 GPU for 2 ranks, and NCCL needs one for each; use --device cpu or start fewer "
            "ranks");
}

TEST(ChooseDevice, WithoutAGpuItIsTheCpuUnlessOneIsAskedFor) {
  const auto choice = choose_device("auto", {kNoGpu, kNoGpu}, 1);
  EXPECT_TRUE(choice.device.is_cpu());
  EXPECT_EQ(choice.remark, "") << "a machine without a GPU is nothing to remark on";
  EXPECT_EQ(
      refusal({kNoGpu}),
      "--device cuda: no usable CUDA device on alpha: Found no NVIDIA driver on your system (./tenfold doctor says "
      "what is missing); use --device cpu");
  EXPECT_TRUE(choose_device("cpu", {kTwoGpus}, 0).device.is_cpu());
}

TEST(ChooseDevice, AllRanksComputeOnOneKindOfDevice) {
  const Ranks ranks = {kOtherTwo, kNoGpu};
  for (const torch::Device device : devices("auto", ranks)) EXPECT_TRUE(device.is_cpu());
  EXPECT_THAT(choose_device("auto", ranks, 0).remark, testing::HasSubstr("no usable CUDA device on alpha"));
  EXPECT_THAT(refusal(ranks), testing::HasSubstr("no usable CUDA device on alpha"));
}

TEST(ShortMessage, IsTheFirstSentencesOnOneLine) {
  const std::string text =
      "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.19 GiB is "
      "free. Including non-PyTorch memory, this process has 77.90 GiB memory in use.\nException raised from malloc";
  EXPECT_EQ(tenfold::short_message(text), "CUDA out of memory");
  EXPECT_EQ(tenfold::short_message(text, 3),
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.19 GiB "
            "is free");
  EXPECT_EQ(tenfold::short_message(text, 9).back(), 'e');
  EXPECT_EQ(tenfold::short_message("one."), "one");
  EXPECT_EQ(tenfold::short_message(""), "");
}

}  // namespace
