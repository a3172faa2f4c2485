// What pages about kernels share: a kernel that is right is counted, one that is wrong has no numbers; on a GPU the
// same for its time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/kernel_survey.h"
#include "kernels/reduction/reduction.h"
#include "kernels/strided_copy/strided_copy.h"

namespace tenfold {
namespace {

using torch::Tensor;

constexpr int64_t kCount = 1000;

/// Copies `written` of the floats.
KernelRun copy(KernelMemory& memory, int64_t written) {
  const Tensor in = memory.normal("in", {kCount}), out = memory.result("out", {kCount});
  return {.launch =
              [=](auto stream) {
                kernels::strided_copy(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), written,
                                      /*stride=*/int64_t{1}, /*offset=*/int64_t{0});
              },
          .right = [=] { return torch::equal(out, in); },
          .bytes = 8.0 * kCount};
}

struct Noted {
  std::shared_ptr<TrialRecord> record = std::make_shared<TrialRecord>();
  Trial trial{record};
};

TEST(KernelSurvey, CountsARightKernel) {
  const simt::Report report = count_kernel([](KernelMemory& memory) { return copy(memory, kCount); });
  EXPECT_EQ(report.launches, 1);
  EXPECT_EQ(report.bytes_asked(), 8 * kCount);
  EXPECT_EQ(report.sectors(), 2 * kCount / 8);
}

TEST(KernelSurvey, AWrongKernelHasNoCounts) {
  EXPECT_THAT([] { count_kernel([](KernelMemory& memory) { return copy(memory, kCount - 1); }); },
              testing::ThrowsMessage<std::runtime_error>("the kernel's result is wrong under the microscope"));
}

TEST(KernelSurvey, AKernelThatLeavesItsMemoryIsNamed) {
  EXPECT_THAT([] { count_kernel([](KernelMemory& memory) { return copy(memory, kCount + 1); }); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("strided_copy.cuh:")));
}

TEST(KernelSurvey, SpoiltResultsAreNaNAndInputsAreNot) {
  const auto check = [](KernelMemory& memory) {
    const Tensor in = memory.normal("in", {3}), values = memory.copy_of("values", torch::arange(3));
    const Tensor out = memory.result("out", {2, 3});
    EXPECT_TRUE(out.isnan().all().item<bool>());
    out.fill_(1);
    memory.spoil_results();
    EXPECT_TRUE(out.isnan().all().item<bool>());
    EXPECT_FALSE(in.isnan().any().item<bool>());
    EXPECT_TRUE(torch::equal(values.cpu(), torch::arange(3).to(torch::kFloat)));
  };
  simt::Device device;
  KernelMemory under_microscope(device);
  check(under_microscope);
  KernelMemory plain{torch::Device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU)};
  check(plain);
}

TEST(KernelSurvey, AWorkspaceBeginsWithZeroBytes) {
  simt::Device device;
  KernelMemory memory(device);
  const auto* workspace = memory.zeroed<kernels::ReductionWorkspace>("workspace");
  EXPECT_EQ(workspace->blocks_done, 0U);
  EXPECT_EQ(workspace->partial[kernels::kReductionMaxBlocks - 1], 0.0F);
}

TEST(KernelSurvey, CountsTheSmallSizesAndOnACpuBuildsNoOthers) {
  const Noted noted;
  int64_t built = 0;
  const auto run = [&](KernelMemory& memory, int64_t written) {
    ++built;
    return copy(memory, written);
  };
  const simt::Report report = count_and_time(noted.trial, run, kCount, kCount + 7);
  EXPECT_EQ(report.bytes_asked(), 8 * kCount);
  EXPECT_EQ(built, 1);
  EXPECT_TRUE(noted.record->notes.empty());
}

TEST(KernelSurvey, NotesWhatARequestOfEachLineCosts) {
  const Noted noted;
  note_accesses(noted.trial, count_kernel([](KernelMemory& memory) { return copy(memory, kCount); }));
  double lines = 0;
  for (const auto& [name, note] : noted.record->notes) {
    if (note.unit != "sectors/request") continue;
    EXPECT_THAT(name, testing::HasSubstr("strided_copy.cuh:"));
    EXPECT_NEAR(note.value, 4, 0.1);  // the last warp has 8 lanes
    ++lines;
  }
  EXPECT_EQ(lines, 2);
  EXPECT_EQ(noted.record->notes.at("bytes moved / bytes asked for").value, 1);
}

TEST(KernelSurvey, TimesARightKernelAndItsRivalsOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  Noted noted;
  noted.trial.device = torch::Device(torch::kCUDA, 0);
  const Tensor from = torch::ones({kCount}, noted.trial.device), to = torch::empty_like(from);
  const auto run = [&](int64_t written, const std::string& complaint) {
    return [=](KernelMemory& memory) {
      KernelRun result = copy(memory, written);
      result.rivals = {{"copy_", [=] { to.copy_(from); }, [=] { return complaint; }}};
      return result;
    };
  };
  note_time(noted.trial, run(kCount, ""));
  EXPECT_GT(noted.record->notes.at("measured, cold caches").value, 0);
  EXPECT_GT(noted.record->notes.at("measured, of the bytes it needs").value, 0);
  EXPECT_GT(noted.record->notes.at("measured, speed / that of copy_").value, 0);
  noted.record->notes.clear();
  EXPECT_THROW(note_time(noted.trial, run(kCount - 1, "")), std::runtime_error);
  EXPECT_THROW(note_time(noted.trial, run(kCount, "is wrong")), std::runtime_error);
  EXPECT_TRUE(noted.record->notes.empty());
}

}  // namespace
}  // namespace tenfold
