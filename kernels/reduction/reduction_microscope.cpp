// The page behind `./tenfold kernel reduction`.
#include "common/kernel_page/kernel_page.h"
#include "reduction_case.h"

#include <cmath>

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const int64_t n = shape.at("n");
  const tenfold::kernels::ReductionBuffers buffers{&device, n};
  tenfold::simt::fill_normal(41, {buffers.in});

  buffers.launch(rung);

  double sum = 0;
  for (const float value : buffers.in) sum += value;
  return {.worst_error = std::abs(buffers.out[0] - sum) / (4 * tenfold::kernels::reduction_error(n, rung)),
          .work = tenfold::kernels::reduction_pass().work({{"count", n}}, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::reduction_case(), run); }
