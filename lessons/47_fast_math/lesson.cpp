// Lesson 47 - Fast math
// What do the fast intrinsics __expf, __sinf and __fdividef save, and what do they cost in accuracy?
// Read kernels/fast_math first: both rungs of every function; fast_math_error.h beside it has the documented errors.
#include <vector>

#include "common/harness/lesson.h"
#include "fast_math_notes.h"
#include "kernels/fast_math/fast_math.h"
#include "kernels/fast_math/fast_math_reference.h"
#include "kernels/kernel_survey.h"

namespace {
using tenfold::KernelMemory;
using tenfold::KernelRun;
using tenfold::Look;
using tenfold::Setting;
using tenfold::Trial;
using torch::Tensor;
namespace kernels = tenfold::kernels;
using kernels::MathFunction;

constexpr Setting<int64_t> kEvaluations{"evaluations", 1, "of the function for each element that is loaded"};
constexpr Setting<double> kLargestArgument{"largest_argument", 3.0, "arguments lie between its negative and it"};
constexpr Setting<int64_t> kCountedFloats{"counted_floats", 2048, "arguments under the microscope"};
constexpr Setting<int64_t> kTimedFloats{"timed_floats", int64_t{1} << 25, "arguments on a GPU, and in the model"};

/// Floats from -largest to largest, evenly; for 1 / sqrt from 1 / largest on.
Tensor arguments(MathFunction function, double largest, int64_t count) {
  return torch::linspace(function == MathFunction::inverse_root ? 1 / largest : -largest, largest, count);
}

/// At most 32768 of them, evenly, on the CPU.
std::vector<float> some_of(const Tensor& values) {
  const int64_t step = std::max<int64_t>(values.numel() / 16384, 1);
  const Tensor some = values.slice(0, 0, values.numel(), step).cpu().contiguous();
  return {some.const_data_ptr<float>(), some.const_data_ptr<float>() + some.numel()};
}

/// Counted and modelled on every machine. On a GPU also timed, after its results were as near to float64 as NVIDIA's
/// documents say; beyond what they say anything but NaN passes.
auto evaluate(MathFunction function, int rung) {
  return [=](const Trial& trial) {
    const int repeats = static_cast<int>(trial.get(kEvaluations));
    const double largest = trial.get(kLargestArgument);
    const auto run = [=](KernelMemory& memory, int64_t count) -> KernelRun {
      const Tensor in = memory.copy_of("in", arguments(function, largest, count));
      const Tensor out = memory.result("out", {count});
      return {.launch =
                  [=](auto stream) {
                    kernels::fast_math(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), count, function,
                                       repeats, rung);
                  },
              .right =
                  [=] {
                    const auto expected = kernels::fast_math_reference(some_of(in), function, repeats, rung);
                    return !out.isnan().any().item<bool>() && kernels::worst_error(some_of(out), expected) <= 1;
                  },
              .bytes = 8.0 * static_cast<double>(count)};
    };
    const int64_t counted = trial.get(kCountedFloats), timed = trial.get(kTimedFloats);
    const auto report = count_and_time(trial, run, counted, timed);
    note_model(trial, function, rung, repeats, static_cast<double>(timed), report, counted);
    if (repeats == 1) note_errors(trial, function, rung, arguments(function, largest, 100'001));
  };
}

const Look kCopy{"copy", evaluate(MathFunction::copy, 0)};
const Look kExpf{"expf", evaluate(MathFunction::exponential, 0)};
const Look kFastExpf{"__expf", evaluate(MathFunction::exponential, 1)};
const Look kSinf{"sinf", evaluate(MathFunction::sine, 0)};
const Look kFastSinf{"__sinf", evaluate(MathFunction::sine, 1)};

std::vector<Look> all_functions() {
  return {kCopy,
          kExpf,
          kFastExpf,
          kSinf,
          kFastSinf,
          {"sigmoid", evaluate(MathFunction::sigmoid, 0)},
          {"sigmoid, intrinsics", evaluate(MathFunction::sigmoid, 1)},
          {"gelu", evaluate(MathFunction::gelu, 0)},
          {"gelu, intrinsics", evaluate(MathFunction::gelu, 1)},
          {"1 / sqrtf", evaluate(MathFunction::inverse_root, 0)},
          {"rsqrtf", evaluate(MathFunction::inverse_root, 1)}};
}
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(
      argc, argv,
      {.title = "Fast math",
       .question = "What do the fast intrinsics __expf, __sinf and __fdividef save, and what do they cost in accuracy?",
       .version = 5,
       .settings = {kEvaluations, kLargestArgument, kCountedFloats, kTimedFloats},
       .surveys = {{"elementwise", all_functions()},
                   {"64 evaluations", all_functions(), {kEvaluations(64)}},
                   {"large angles", {kCopy, kSinf, kFastSinf}, {kLargestArgument(10000)}},
                   {"large exponents", {kCopy, kExpf, kFastExpf}, {kLargestArgument(85)}}}});
}
