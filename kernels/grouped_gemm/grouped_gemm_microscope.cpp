// ./tenfold kernel grouped_gemm: the ladder of a mixture of experts' products under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "grouped_gemm_case.h"

#include <cuda_bf16.h>

#include <stdexcept>

#include "grouped_gemm_reference.h"

namespace {

namespace simt = tenfold::simt;

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  constexpr int64_t kLargest = 4096;  // minutes under the microscope, and far from any overflow
  const auto [rows, experts, depth, columns] = tenfold::kernels::grouped_shape(shape);
  if (std::max({rows, experts, depth, columns}) > kLargest || std::min({rows, experts, depth, columns}) < 1 ||
      shape.at("wave") < 1 || shape.at("largest") < 0) {
    throw std::invalid_argument("grouped_gemm: rows, experts, depth and columns must be in 1 .. " +
                                std::to_string(kLargest) + ", wave at least 1, largest at least 0");
  }
  const auto buffers = tenfold::kernels::grouped_buffers<__nv_bfloat16>(device, shape, rung);
  simt::fill_normal(1, {buffers.x, buffers.weights});

  buffers.launch();

  const auto expected = tenfold::kernels::grouped_gemm_reference(
      simt::wide(buffers.x), tenfold::kernels::far_apart_rows(rows), simt::wide(buffers.weights), buffers.routing,
      depth, columns, tenfold::kernels::kBfloat16Rounding);
  return {.worst_error = tenfold::kernels::worst_error(buffers.out, expected),
          .work = tenfold::kernels::grouped_gemm_pass().work(shape, sizeof(__nv_bfloat16))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::grouped_gemm_case(), run); }
