#pragma once
// The survey of lesson 34: how often host memory is page-locked, and how much of it.

#include <torch/torch.h>

#include <ATen/core/CachingHostAllocator.h>

#include <cstdint>
#include <string>

#include "common/harness/lesson.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"

namespace tenfold::inline lesson_34 {

inline constexpr int kWarmUp = 2, kCounted = 3;  // updates

/// A line of the survey: a few updates, and what LibTorch's allocator of page-locked memory did in them. How long the
/// driver took is noted on a real GPU alone: a dry one locks nothing.
inline Look host_look(const std::string& name, Step (*build)(const Trial&)) {
  return {name, [build](const Trial& trial) {
            if (!trial.device.is_cuda()) trial.skip("page-locked memory serves copies to a GPU, and this run has none");
            at::HostAllocator& host = *at::getHostAllocator(at::kCUDA);
            synchronize(trial.device);
            host.empty_cache();
            const at::HostStats others = host.get_stats();
            const Step step = build(trial);
            for (int update = 0; update < kWarmUp; ++update) step.update();
            const at::HostStats before = host.get_stats();
            for (int update = 0; update < kCounted; ++update) step.update();
            const at::HostStats after = host.get_stats();
            const auto a_step = [](int64_t of_all) { return static_cast<double>(of_all) / kCounted; };
            trial.note("page-locks a step", a_step(after.num_host_alloc - before.num_host_alloc), "");
            trial.note("page-locked", static_cast<double>(after.allocated_bytes.peak - others.allocated_bytes.current),
                       "bytes");
            if (!dry_card())
              trial.note("locking a step", a_step(after.host_alloc_time.total - before.host_alloc_time.total) / 1e6,
                         "s");
          }};
}

}  // namespace tenfold::inline lesson_34
