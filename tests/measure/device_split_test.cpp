// The split of a GPU's step, on traces made up by hand: no GPU is needed for the arithmetic.
#include "common/measure/device_split.h"

#include <gtest/gtest.h>

#include <ATen/record_function.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

namespace {

using libkineto::ActivityType;
using tenfold::Activity;
using tenfold::Span;
using tenfold::Split;
using tenfold::TracedSpan;

std::optional<Activity> activity_of(ActivityType type, const std::string& name) {
  return tenfold::activity_of(static_cast<uint8_t>(type), name);
}

constexpr int64_t kMs = 1'000'000;  // in ns

TracedSpan span(Activity activity, int64_t begin_ms, int64_t end_ms) {
  return {activity, {begin_ms * kMs, end_ms * kMs}};
}

Split split(const std::vector<TracedSpan>& spans, int64_t window_ms, double seconds) {
  return tenfold::split_of(spans, {0, window_ms * kMs}, seconds).value();
}

double sum(const Split& s) { return s.data + s.host + s.device + s.copy + s.communication; }

TEST(ActivityOf, OnlyWorkOnTheDeviceAndTheRegionDataCount) {
  EXPECT_EQ(activity_of(ActivityType::CONCURRENT_KERNEL, "sm90_xmma_gemm_f32f32"), Activity::compute);
  EXPECT_EQ(activity_of(ActivityType::CONCURRENT_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"),
            Activity::communication);
  EXPECT_EQ(activity_of(ActivityType::GPU_MEMSET, "Memset (Device)"), Activity::compute);
  EXPECT_EQ(activity_of(ActivityType::GPU_MEMCPY, "Memcpy HtoD (Pinned -> Device)"), Activity::copy);
  EXPECT_EQ(activity_of(ActivityType::USER_ANNOTATION, "data"), Activity::data);
  EXPECT_FALSE(activity_of(ActivityType::USER_ANNOTATION, "forward"));
  // The region's shadow on the GPU spans the gaps between its kernels.
  EXPECT_FALSE(activity_of(ActivityType::GPU_USER_ANNOTATION, "data"));
  EXPECT_FALSE(activity_of(ActivityType::GPU_USER_ANNOTATION, "nccl:all_reduce"));
}

TEST(ActivityOf, NoOtherTypeOfKinetoIsCounted) {
  for (uint8_t type = 0; type < static_cast<uint8_t>(ActivityType::ENUM_COUNT); ++type) {
    const auto known = static_cast<ActivityType>(type);
    if (known == ActivityType::CONCURRENT_KERNEL || known == ActivityType::GPU_MEMSET ||
        known == ActivityType::GPU_MEMCPY || known == ActivityType::USER_ANNOTATION)
      continue;
    for (const char* name : {"data", "Memcpy HtoD", "nccl", "cudaLaunchKernel"})
      EXPECT_FALSE(tenfold::activity_of(type, name)) << libkineto::toString(known);
  }
}

TEST(SplitOf, WhatOverlapsIsCountedOnceAsTheFirstOfItsKinds) {
  const Split s = split({span(Activity::compute, 10, 40), span(Activity::compute, 20, 50),  // two streams
                         span(Activity::copy, 45, 60),                                      // 10 of it alone
                         span(Activity::communication, 55, 80)},                            // 20 of it alone
                        100, 0.1);
  EXPECT_NEAR(s.device, 0.040, 1e-12);
  EXPECT_NEAR(s.copy, 0.010, 1e-12);
  EXPECT_NEAR(s.communication, 0.020, 1e-12);
  EXPECT_NEAR(s.host, 0.030, 1e-12);
  EXPECT_EQ(s.data, 0);
}

// A region that waits for the last step's kernels has no time of its own.
TEST(SplitOf, DataCountsOnlyWhileTheDeviceDoesNothing) {
  const Split s = split({span(Activity::data, 0, 90), span(Activity::compute, 5, 95)}, 100, 0.1);
  EXPECT_NEAR(s.data, 0.005, 1e-12);
  EXPECT_NEAR(s.device, 0.090, 1e-12);
  EXPECT_NEAR(s.host, 0.005, 1e-12);
}

TEST(SplitOf, ObservingLengthensTheHostsPartsAlone) {
  // Unobserved the step takes 60 ms; the GPU's 40 stay, and the other 20 are shared as the trace's 60 were.
  const Split s = split({span(Activity::data, 0, 15), span(Activity::compute, 60, 100)}, 100, 0.06);
  EXPECT_NEAR(s.device, 0.040, 1e-12);
  EXPECT_NEAR(s.data, 0.005, 1e-12);
  EXPECT_NEAR(s.host, 0.015, 1e-12);
}

TEST(SplitOf, ThePartsNeverExceedTheStep) {
  const std::vector<TracedSpan> spans = {span(Activity::compute, -20, 60), span(Activity::copy, 60, 70),
                                         span(Activity::communication, 70, 130), span(Activity::data, 0, 100)};
  for (const double seconds : {0.01, 0.05, 0.1, 0.2}) {
    const Split s = split(spans, 100, seconds);
    for (const double part : {s.data, s.host, s.device, s.copy, s.communication}) EXPECT_GE(part, 0);
    EXPECT_LE(sum(s), seconds + 1e-12);
  }
  const Split with_a_gap = split({span(Activity::compute, 0, 60)}, 100, 0.2);
  EXPECT_NEAR(sum(with_a_gap), 0.2, 1e-12);
}

TEST(SplitOf, ATraceWithoutTheDeviceIsNoSplit) {
  EXPECT_FALSE(tenfold::split_of({span(Activity::data, 0, 50)}, {0, 100 * kMs}, 0.1));
  EXPECT_FALSE(tenfold::split_of({}, {0, 100 * kMs}, 0.1));
}

// What a profiler without a GPU says of a region: the types are the profiler's, not made up.
TEST(ActivityOf, ARecordedRegionIsData) {
  namespace profiler = torch::autograd::profiler;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  profiler::prepareProfiler(config, {profiler::ActivityType::CPU});
  profiler::enableProfiler(config, {profiler::ActivityType::CPU},
                           {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
  {
    RECORD_USER_SCOPE("data");
    torch::ones({8}).sum();
  }
  int found = 0;
  const auto profile = profiler::disableProfiler();
  for (const auto& event : profile->events()) {
    const auto activity = tenfold::activity_of(event.activityType(), event.name());
    if (!activity) continue;
    EXPECT_EQ(*activity, Activity::data) << event.name();
    ++found;
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
