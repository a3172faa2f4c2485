// The page behind `./tenfold kernel fast_math`. The microscope counts memory accesses, in which the rungs are alike,
// and computes intrinsics exactly: instructions and errors are the subject of lesson 47.
#include "common/kernel_page/kernel_page.h"
#include "fast_math.h"

#include <algorithm>
#include <vector>

#include "fast_math_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  const int64_t n = shape.at("n"), repeats = shape.at("repeats");
  if (repeats > 1000) throw std::invalid_argument("repeats=" + std::to_string(repeats) + ": at most 1000 here");
  const auto in = device.buffer<float>("in", n), out = device.buffer<float>("out", n);
  tenfold::simt::fill_normal(52, {in});
  tenfold::simt::PageRun result;
  for (int i = 0; i < kMathFunctions; ++i) {
    const auto function = static_cast<MathFunction>(i);
    if (function == MathFunction::inverse_root) {
      std::transform(in.begin(), in.end(), in.begin(), [](float x) { return std::abs(x) + 0.001F; });
    }
    fast_math(&device, out.data(), in.data(), n, function, static_cast<int>(repeats), rung);
    const Expected expected = fast_math_reference({in.begin(), in.end()}, function, static_cast<int>(repeats), rung);
    result.worst_error = std::max(result.worst_error, worst_error(out, expected));
    result.work.least_bytes += 2 * n * static_cast<int64_t>(sizeof(float));
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelCase about{
      .name = "fast_math",
      .title = "Functions of every element: copy, exp, sine, sigmoid, gelu, 1/sqrt, one after the other",
      .shape = {{"n", 8192}, {"repeats", 1}},
      .rungs = {{"library", "expf, sinf, tanhf, division: within 2 units in the last place everywhere."},
                {"intrinsics",
                 "__expf, __sinf, __fdividef: fewer instructions, the same memory accesses; exact here, on a GPU they "
                 "are not."}}};
  return tenfold::simt::show(argc, argv, about, run);
}
