// The page behind `./tenfold kernel bias_gelu`.
#include "bias_gelu_case.h"
#include "common/kernel_page/kernel_page.h"

#include "bias_gelu_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const BiasGeluBuffers<float> buffers{&device, shape.at("rows"), shape.at("columns")};
  tenfold::simt::fill_normal(44, {buffers.in, buffers.bias});

  buffers.launch(rung);

  const auto expected =
      bias_gelu_reference(wide(buffers.in), wide(buffers.bias), Gelu::tanh, kFloatRounding, /*unfused=*/rung == 0);
  return {.worst_error = worst_error(buffers.out, expected), .work = bias_gelu_forward().work(shape, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::bias_gelu_case(), run); }
