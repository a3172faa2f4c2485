#pragma once
// What is known of a fast function without running it on a GPU: its machine instructions, how long an H100 needs for
// them at the least, and its errors by NVIDIA's documents.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "common/machine/gpu_ceilings.h"
#include "common/measure/trial.h"
#include "common/microscope/report.h"
#include "kernels/fast_math/fast_math_error.h"
#include "kernels/fast_math/sass_instructions.h"

namespace tenfold::inline lesson_47 {

inline constexpr int kArchitecture = 90;  ///< whose instructions are noted: an H100's

/// Of the kernel as it was compiled for the H100.
inline const SassInstructions& instructions_of(kernels::MathFunction function, int rung) {
  const auto* found =
      std::find_if(std::begin(kSassInstructions), std::end(kSassInstructions), [&](const SassInstructions& row) {
        return row.architecture == kArchitecture && row.rung == rung && row.function == function;
      });
  TORCH_CHECK(found != std::end(kSassInstructions),
              "no instructions are recorded for this function; run common/tools/sass_instructions.py");
  return *found;
}

/// Notes the instructions for an element that is evaluated `repeats` times, and how long an H100 needs for `elements`
/// of them at the least, beside the bytes: `report` counted `counted` elements.
inline void note_model(const Trial& trial, kernels::MathFunction function, int rung, int repeats, double elements,
                       const simt::Report& report, int64_t counted) {
  const SassInstructions& row = instructions_of(function, rung);
  const int again = (repeats - 1) * row.again;
  const int special_again = (repeats - 1) * row.special_again;
  trial.note("SASS instructions of an element, sm_90", row.first + again, "instructions");
  if (repeats > 1) trial.note("of these for each further evaluation", row.again, "instructions");
  const simt::GpuCeilings& gpu = simt::gpu_named("H100");
  const double clocks_per_s = gpu.sms * gpu.clock_hz;  // of all SMs
  const auto note = [&](const std::string& limit, double seconds) {
    trial.note("modelled on an H100, not measured: " + limit, seconds, "s");
  };
  const double dram_bytes = static_cast<double>(report.unique_bytes_read + report.unique_bytes_written);
  note("DRAM", dram_bytes / static_cast<double>(counted) * elements / gpu.dram_bytes_per_s);
  // Of one SM: 4 schedulers issue to 32 lanes each in a clock; special functions have 16 lanes.
  note("issue", elements * (row.first + again) / (128 * clocks_per_s));
  note("special functions", elements * (row.special + special_again) / (16 * clocks_per_s));
}

/// Notes the largest error of one evaluation over `arguments` (N): what NVIDIA's documents allow, and what the product
/// before the approximation instruction makes of it alone. In ulp of the result, or of 1 where results pass through or
/// tend to 0.
inline void note_errors(const Trial& trial, kernels::MathFunction function, int rung, const torch::Tensor& arguments) {
  using kernels::MathFunction;
  const bool absolute = function == MathFunction::sine || function == MathFunction::gelu;
  const char* unit = absolute ? "ulp of 1" : "ulp";
  const auto* values = arguments.const_data_ptr<float>();
  double documented = 0, modelled = 0, without = 0;
  for (int64_t i = 0; i < arguments.numel(); ++i) {
    const double exact = kernels::math_value(function, values[i]);
    const double ulp = absolute ? 0x1p-23 : kernels::ulp(exact);
    const double allowed = kernels::documented_error(function, rung, values[i]) / ulp;
    without += std::isinf(allowed) ? 1 : 0;
    documented = std::max(documented, allowed);
    modelled = std::max(modelled, std::abs(kernels::modelled_value(function, values[i]) - exact) / ulp);
  }
  if (without == 0) trial.note("largest error, at most, by NVIDIA's documents", documented, unit);
  if (without > 0) {
    trial.note("arguments for which no error is documented", without / static_cast<double>(arguments.numel()),
               "of all");
  }
  const bool has_model = rung == 1 && function != MathFunction::inverse_root && function != MathFunction::copy;
  if (has_model) trial.note("largest error, modelled, of the product before the approximation alone", modelled, unit);
}

}  // namespace tenfold::inline lesson_47
