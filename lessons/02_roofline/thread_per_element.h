#pragma once
// The same updates on a GPU, a thread for each weight: counted on any machine, modelled for an H100, timed on a GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/machine/gpu_ceilings.h"
#include "kernels/kernel_survey.h"
#include "kernels/repeated_fma/repeated_fma.h"

namespace tenfold::inline lesson_02 {

inline constexpr Setting<int64_t> kCountedFloats{"counted_floats", 2048, "weights under the microscope"};
inline constexpr Setting<int64_t> kTimedFloats{
    "timed_floats", {int64_t{1} << 25, int64_t{1} << 26, int64_t{1} << 28}, "weights on a GPU, and in the model"};

/// Notes both roofs of an H100 for a kernel of so many FLOP and bytes: how long each takes for it at the least.
inline void note_roofs(const Trial& trial, double flops, double bytes) {
  const simt::GpuCeilings& h100 = simt::gpu_named("H100");
  trial.note("arithmetic intensity", flops / bytes, "FLOP per byte");
  trial.note("modelled on an H100, not measured: DRAM", bytes / h100.dram_bytes_per_s, "s");
  trial.note("modelled on an H100, not measured: arithmetic", flops / h100.flops_per_s, "s");
}

/// A GPU starts one thread for each weight, which loads it, updates it in a register and stores it.
inline Look thread_per_element(int64_t updates) {
  const auto note = [updates](const Trial& trial) {
    constexpr float kFactor = 0.875F, kSummand = 0.25F;
    const auto run = [=](KernelMemory& memory, int64_t count) -> KernelRun {
      const torch::Tensor in = memory.normal("in", {count}), out = memory.result("out", {count});
      const auto right = [=] {
        torch::Tensor expected = in.to(torch::kDouble);
        for (int64_t i = 0; i < updates; ++i) expected = expected * kFactor + kSummand;
        return torch::allclose(out.to(torch::kDouble), expected, /*rtol=*/1e-5, /*atol=*/1e-5);
      };
      auto* to = out.data_ptr<float>();
      const auto* from = in.const_data_ptr<float>();
      const auto launch = [=](auto stream) {
        kernels::repeated_fma(stream, to, from, count, updates, kFactor, kSummand);
      };
      return {.launch = launch,
              .right = right,
              .bytes = 8.0 * static_cast<double>(count),
              .flops = 2.0 * static_cast<double>(updates * count)};
    };
    const int64_t counted = trial.get(kCountedFloats), timed = trial.get(kTimedFloats);
    const simt::Report report = count_and_time(trial, run, counted, timed);
    const auto of_weight =
        static_cast<double>(report.unique_bytes_read + report.unique_bytes_written) / static_cast<double>(counted);
    note_roofs(trial, 2.0 * static_cast<double>(updates * timed), of_weight * static_cast<double>(timed));
  };
  return {std::to_string(updates) + (updates == 1 ? " update" : " updates"), note};
}

inline std::vector<Look> threads_per_element() {
  return {thread_per_element(1), thread_per_element(16), thread_per_element(64), thread_per_element(256)};
}

}  // namespace tenfold::inline lesson_02
