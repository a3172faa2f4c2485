// ./tenfold kernel split_k: the ladder of work decompositions under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "split_k_case.h"

#include <cuda_bf16.h>

#include <stdexcept>

#include "kernels/hgemm/hgemm_reference.h"

namespace {

namespace simt = tenfold::simt;

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  constexpr int64_t kLargest = 4096;  // minutes under the microscope, and far from any overflow
  if (std::max({m, n, k}) > kLargest || shape.at("wave") < 1)
    throw std::invalid_argument("split_k: m, n and k must be at most " + std::to_string(kLargest) +
                                ", wave at least 1");
  const auto buffers = tenfold::kernels::split_k_buffers<__nv_bfloat16>(device, shape, rung);
  simt::fill_normal(1, {buffers.a, buffers.b});

  buffers.launch();

  const auto expected = tenfold::kernels::hgemm_reference(simt::wide(buffers.a), simt::wide(buffers.b), m, n, k,
                                                          tenfold::kernels::kFloatRounding);
  return {.worst_error = tenfold::kernels::worst_error(buffers.c, expected),
          .work = tenfold::kernels::split_k_pass().work(shape, sizeof(__nv_bfloat16))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::split_k_case(), run); }
