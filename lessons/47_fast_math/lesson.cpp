// Lesson 47 - Fast math
//
// Question  What do the fast intrinsics __expf, __sinf and __fdividef save, and what do they cost in accuracy?
// Expect    A sine shrinks from 27 machine instructions to 2, exp hardly; the error grows with the argument.
// Not for   Elementwise kernels: they wait for memory, not for instructions. Large angles, where nothing is left of the sine.
// Run       ./tenfold run 47_fast_math
// Read      kernels/fast_math has both rungs, fast_math_error.h beside it the documented errors and the model.
#include <tenfold/fast_math.h>
#include <tenfold/kernel_trial.h>
#include <tenfold/lesson.h>
#include <tenfold/roofline.h>
#include <tenfold/sass_instructions.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "../../kernels/fast_math/fast_math_error.h"
#include "../../kernels/fast_math/fast_math_reference.h"

namespace {
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
namespace kernels = tenfold::kernels;
namespace simt = tenfold::simt;
using kernels::MathFunction;

constexpr int kArchitecture = 90;  // whose instructions are noted, and whose ceilings the model uses: an H100

/// What a variant evaluates, and on which arguments.
struct Work {
  Work(const Trial& trial, MathFunction which, int with_rung)
      : function(which),
        rung(with_rung),
        repeats(static_cast<int>(trial.get("evaluations", 1))),
        many(trial.get("timed floats", int64_t{1} << 25)),
        largest(trial.get("largest argument", 3.0)) {}
  /// Floats from -largest to largest, evenly; for 1 / sqrt from 1 / largest on.
  Tensor arguments(int64_t count, torch::Device device) const {
    return torch::linspace(function == MathFunction::inverse_root ? 1 / largest : -largest, largest, count, device);
  }
  MathFunction function;
  int rung, repeats;
  int64_t many;
  double largest;
};

template <class Stream>
void launch(Stream stream, const Work& work, const Tensor& out, const Tensor& in) {
  kernels::fast_math(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), in.numel(), work.function, work.repeats, work.rung);
}

/// Whether results are as near to float64 as NVIDIA's documents say. Beyond what they say anything but NaN passes.
bool is_right(const Work& work, const Tensor& out, const Tensor& in) {
  const Tensor x = in.cpu(), y = out.cpu();
  const std::vector<float> arguments(x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel());
  const std::vector<float> results(y.const_data_ptr<float>(), y.const_data_ptr<float>() + y.numel());
  return kernels::worst_error(results, kernels::fast_math_reference(arguments, work.function, work.repeats, work.rung)) <= 1;
}

/// The instructions of the kernel that was compiled for the H100, and how long it would need for them at the least, beside the bytes.
void note_model(const Trial& trial, const Work& work, const simt::Report& report, int64_t counted) {
  const auto& all = tenfold::kSassInstructions;
  const auto* found = std::find_if(std::begin(all), std::end(all), [&](const auto& one) {
    return one.architecture == kArchitecture && one.rung == work.rung && one.function == work.function;
  });
  TORCH_CHECK(found != std::end(all), "no instructions are recorded for this function; run common/cmake/sass_instructions.py");
  trial.note("SASS instructions of an element, sm_90", found->first + (work.repeats - 1) * found->again, "instructions");
  if (work.repeats > 1) trial.note("of these for each further evaluation", found->again, "instructions");
  const simt::GpuCeilings& gpu = simt::gpu_named("H100");
  const double elements = static_cast<double>(work.many), lanes_per_s = gpu.sms * gpu.clock_hz;
  const auto note = [&](const std::string& what, double seconds) {
    trial.note("modelled on an H100, not measured: " + what, seconds, "s");
  };
  note("DRAM", static_cast<double>(report.unique_bytes_read + report.unique_bytes_written) / static_cast<double>(counted) * elements /
                   gpu.dram_bytes_per_s);
  // Of one multiprocessor: 4 schedulers issue to 32 lanes each in a clock; special functions have 16 lanes.
  note("issue", elements * (found->first + (work.repeats - 1) * found->again) / (128 * lanes_per_s));
  note("special functions", elements * (found->special + (work.repeats - 1) * found->special_again) / (16 * lanes_per_s));
}

/// The largest error of one evaluation over the arguments: what NVIDIA's documents allow, and what the product before the
/// approximation instruction makes of it alone. In ulp of the result, or of 1 where results pass through or tend to 0.
void note_errors(const Trial& trial, const Work& work) {
  const bool absolute = work.function == MathFunction::sine || work.function == MathFunction::gelu;
  const char* unit = absolute ? "ulp of 1" : "ulp";
  const Tensor in = work.arguments(100'001, torch::kCPU);
  double documented = 0, modelled = 0, without = 0;
  for (const float x : std::vector<float>(in.const_data_ptr<float>(), in.const_data_ptr<float>() + in.numel())) {
    const double exact = kernels::math_value(work.function, x), one = absolute ? 0x1p-23 : kernels::ulp(exact);
    const double allowed = kernels::documented_error(work.function, work.rung, x) / one;
    without += std::isinf(allowed) ? 1 : 0;
    documented = std::max(documented, allowed);
    modelled = std::max(modelled, std::abs(kernels::modelled_value(work.function, x) - exact) / one);
  }
  if (without == 0) trial.note("largest error, at most, by NVIDIA's documents", documented, unit);
  if (without > 0) trial.note("arguments for which no error is documented", without / static_cast<double>(in.numel()), "of all");
  const bool has_model = work.rung == 1 && work.function != MathFunction::inverse_root && work.function != MathFunction::copy;
  if (has_model) trial.note("largest error, modelled, of the product before the approximation alone", modelled, unit);
}

/// Counted and modelled on every machine; on a GPU also timed, and its error is measured.
Step evaluate(const Trial& trial, MathFunction function, int rung) {
  const Work work(trial, function, rung);
  const int64_t few = trial.get("counted floats", 2048);
  const simt::Report report = tenfold::under_microscope([&](simt::Device& device) {
    const auto from = device.buffer<float>("in", few), to = device.buffer<float>("out", few);
    const Tensor in = tenfold::as_tensor(from).copy_(work.arguments(few, torch::kCPU)), out = tenfold::as_tensor(to);
    launch(&device, work, out, in);
    return is_right(work, out, in);
  });
  note_model(trial, work, report, few);
  if (work.repeats == 1) note_errors(trial, work);
  if (!trial.device.is_cuda()) return {};
  const Tensor in = work.arguments(work.many, trial.device), out = torch::full_like(in, NAN);
  const auto some = [&](const Tensor& all) { return all.slice(0, 0, work.many, std::max<int64_t>(work.many / 16384, 1)).contiguous(); };
  tenfold::note_time_on_gpu(
      trial, 8.0 * static_cast<double>(work.many), [&](auto stream) { launch(stream, work, out, in); },
      [&] { return !out.isnan().any().item<bool>() && is_right(work, some(out), some(in)); });
  return {};
}

template <MathFunction function, int rung>
Step with(const Trial& trial) {
  return evaluate(trial, function, rung);
}
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(argc, argv,
                      {.title = "Fast math",
                       .question = "What do the fast intrinsics __expf, __sinf and __fdividef save, and what do they cost in accuracy?",
                       .workload = "foundation",
                       .baseline = {"copy", with<MathFunction::copy, 0>},
                       .techniques = {{"expf", with<MathFunction::exponential, 0>},
                                      {"__expf", with<MathFunction::exponential, 1>},
                                      {"sinf", with<MathFunction::sine, 0>},
                                      {"__sinf", with<MathFunction::sine, 1>},
                                      {"sigmoid", with<MathFunction::sigmoid, 0>},
                                      {"sigmoid, intrinsics", with<MathFunction::sigmoid, 1>},
                                      {"gelu", with<MathFunction::gelu, 0>},
                                      {"gelu, intrinsics", with<MathFunction::gelu, 1>},
                                      {"1 / sqrtf", with<MathFunction::inverse_root, 0>},
                                      {"rsqrtf", with<MathFunction::inverse_root, 1>}},
                       .cases = {{"elementwise", {}, {}},
                                 {"64 evaluations", {{"evaluations", 64}}, {}},
                                 {"large angles", {{"largest argument", 10000}}, {{"sinf", {}}, {"__sinf", {}}}},
                                 {"large exponents", {{"largest argument", 85}}, {{"expf", {}}, {"__expf", {}}}}}});
}
