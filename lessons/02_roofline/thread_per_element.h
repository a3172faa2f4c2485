#pragma once
// The same updates on a GPU, a thread for each weight: counted on any machine, modelled for an H100, timed on a GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/kernel_page/roofline.h"
#include "kernels/kernel_survey.h"
#include "kernels/repeated_fma/repeated_fma.h"

namespace tenfold {

inline constexpr Setting<int64_t> kCountedFloats{"counted_floats", 2048, "weights under the microscope"};
inline constexpr Setting<int64_t> kTimedFloats{
    "timed_floats", {int64_t{1} << 25, int64_t{1} << 26, int64_t{1} << 28}, "weights on a GPU, and in the model"};

/// Notes what an H100 needs for each resource at the least, for `timed` weights: `report` counted `counted` of them.
inline void note_roofline(const Trial& trial, const simt::Report& report, double flops, double counted, double timed) {
  const simt::GpuCeilings& h100 = simt::gpu_named("H100");
  const simt::Roofline model = simt::roofline(h100, report, flops);
  trial.note("arithmetic intensity", model.intensity, "FLOP per byte");
  for (const simt::RooflinePart& part : model.parts) {
    if (part.name == "DRAM" || part.name == "arithmetic")
      trial.note("modelled on an H100, not measured: " + part.name, part.seconds * timed / counted, "s");
  }
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
    note_roofline(trial, report, 2.0 * static_cast<double>(updates * counted), static_cast<double>(counted),
                  static_cast<double>(timed));
  };
  return {std::to_string(updates) + (updates == 1 ? " update" : " updates"), note};
}

inline std::vector<Look> threads_per_element() {
  return {thread_per_element(1), thread_per_element(16), thread_per_element(64), thread_per_element(256)};
}

}  // namespace tenfold
