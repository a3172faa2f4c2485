// ./tenfold kernel hgemm: the ladder of 16-bit matrix products under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "hgemm.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "hgemm_reference.h"

namespace {

namespace simt = tenfold::simt;

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  constexpr int64_t kLargest = 4096;  // minutes under the microscope, and far from any overflow
  if (std::max({m, n, k}) > kLargest)
    throw std::invalid_argument("hgemm: m, n and k must be at most " + std::to_string(kLargest));
  using T = __nv_bfloat16;
  const auto a = device.buffer<T>("a", m * k), b = device.buffer<T>("b", k * n), c = device.buffer<T>("c", m * n);
  simt::fill_normal(1, {a, b});

  tenfold::kernels::hgemm<T, simt::Stream>(&device, c.data(), a.data(), b.data(), m, n, k, rung);

  const auto expected =
      tenfold::kernels::hgemm_reference(simt::wide(a), simt::wide(b), m, n, k, tenfold::kernels::kBfloat16Rounding);
  return {.worst_error = tenfold::kernels::worst_error(c, expected),
          .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
          .least_bytes = (m * k + k * n + m * n) * static_cast<int64_t>(sizeof(T))};
}

}  // namespace

int main(int argc, char** argv) {
  return simt::show(
      argc, argv,
      {.name = "hgemm",
       .title = "Matrix product of bfloat16 matrices, sums in float32",
       .shape = {{"m", 128}, {"n", 256}, {"k", 128}},
       .rungs =
           {{"CUDA cores", "As the last rung of sgemm: elements are widened to float on their way to shared memory."},
            {"mma",
             "One instruction of a warp multiplies 16 x 16 by 16 x 8; its fragments are loaded element by element."},
            {"ldmatrix",
             "One instruction loads four 8 x 8 matrices as mma wants them; a swizzle keeps their rows out of each "
             "other's banks."},
            {"cp.async", "Copies go past the registers and run three steps ahead; one barrier a step."},
            {"large tile",
             "A warp computes 64 x 64: fewer loads for each mma; fragments one step ahead, an order of blocks for "
             "L2."}},
       .run = run});
}
