// ./tenfold kernel hgemm: the ladder of 16-bit matrix products under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "hgemm_case.h"

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
  const tenfold::kernels::HgemmBuffers<__nv_bfloat16> buffers{&device, m, n, k};
  simt::fill_normal(1, {buffers.a, buffers.b});

  buffers.launch(rung);

  const auto expected = tenfold::kernels::hgemm_reference(simt::wide(buffers.a), simt::wide(buffers.b), m, n, k,
                                                          tenfold::kernels::kBfloat16Rounding);
  return {.worst_error = tenfold::kernels::worst_error(buffers.c, expected),
          .work = tenfold::kernels::hgemm_pass().work(shape, sizeof(__nv_bfloat16))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::hgemm_case(), run); }
