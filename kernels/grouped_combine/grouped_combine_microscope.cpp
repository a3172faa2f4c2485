// ./tenfold kernel grouped_combine: experts' results on their way back to their tokens, under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "grouped_combine_case.h"

#include <cuda_bf16.h>

#include <stdexcept>

#include "grouped_combine_reference.h"

namespace {

namespace simt = tenfold::simt;
namespace kernels = tenfold::kernels;

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  constexpr int64_t kLargest = 4096;  // minutes under the microscope, and far from any overflow
  const kernels::CombineShape s = kernels::combine_shape(shape);
  if (std::max({s.tokens, s.experts, s.depth, s.columns}) > kLargest ||
      std::min({s.tokens, s.experts, s.depth, s.columns, s.active, shape.at("wave")}) < 1 || s.active > 32 ||
      shape.at("largest") < 0) {
    throw std::invalid_argument("grouped_combine: tokens, experts, depth and columns must be in 1 .. " +
                                std::to_string(kLargest) + ", active in 1 .. 32, wave at least 1, largest at least 0");
  }
  const kernels::CombineBuffers<__nv_bfloat16> buffers{kernels::combine_routing(device, shape), shape.at("wave"), false,
                                                       rung};
  simt::fill_normal(1, {buffers.rows, buffers.weights});

  buffers.launch();

  std::vector<float> scales;
  for (int64_t row = 0; row < s.rows(); ++row) scales.push_back(kernels::scale_of_row(row));
  const auto expected = kernels::grouped_combine_reference(
      simt::wide(buffers.rows), simt::wide(buffers.weights), buffers.routing.routing,
      kernels::far_apart_tokens(s.rows(), s.tokens), scales, s, kernels::kBfloat16Rounding, rung);
  return {.worst_error = kernels::worst_error(buffers.out, expected),
          .work = kernels::grouped_combine_pass().work(shape, sizeof(__nv_bfloat16))};
}

}  // namespace

int main(int argc, char** argv) { return simt::show(argc, argv, kernels::grouped_combine_case(), run); }
