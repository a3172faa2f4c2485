#include "fast_math.h"

#include "fast_math.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 256;

template <MathFunction function, class Stream>
void launch_one(Stream stream, float* out, const float* in, int64_t n, int repeats, int rung) {
  const auto kernel = rung == 0 ? math_by_library<function> : math_by_intrinsics<function>;
  launch(stream, blocks_for(n, kThreads), kThreads, 0, kernel, out, in, n, repeats);
}

}  // namespace

template <class Stream>
void fast_math(Stream stream, float* out, const float* in, int64_t n, MathFunction function, int repeats, int rung) {
  if (n < 1 || n > int64_t{0x7ffffffe} * kThreads || repeats < 1) {
    throw std::invalid_argument("fast_math: cannot evaluate " + std::to_string(n) + " elements " +
                                std::to_string(repeats) + " times");
  }
  if (rung < 0 || rung >= kFastMathRungs) throw no_such_rung("fast_math", rung, kFastMathRungs);
  switch (function) {
    case MathFunction::copy:
      return launch_one<MathFunction::copy>(stream, out, in, n, repeats, rung);
    case MathFunction::exponential:
      return launch_one<MathFunction::exponential>(stream, out, in, n, repeats, rung);
    case MathFunction::sine:
      return launch_one<MathFunction::sine>(stream, out, in, n, repeats, rung);
    case MathFunction::sigmoid:
      return launch_one<MathFunction::sigmoid>(stream, out, in, n, repeats, rung);
    case MathFunction::gelu:
      return launch_one<MathFunction::gelu>(stream, out, in, n, repeats, rung);
    case MathFunction::inverse_root:
      return launch_one<MathFunction::inverse_root>(stream, out, in, n, repeats, rung);
  }
  throw std::invalid_argument("fast_math: no function " + std::to_string(static_cast<int>(function)));
}

template void fast_math(Stream, float*, const float*, int64_t, MathFunction, int, int);

}  // namespace tenfold::kernels
