// The page behind `./tenfold kernel layer_norm`.
#include "common/kernel_page/kernel_page.h"
#include "layer_norm_case.h"

#include <algorithm>

#include "layer_norm_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const LayerNormBuffers<float> buffers{&device, shape.at("rows"), shape.at("columns")};
  tenfold::simt::fill_normal(43, {buffers.in, buffers.weight, buffers.bias});
  constexpr float kEpsilon = 1e-5F;

  buffers.launch(kEpsilon, rung);

  const auto expected = layer_norm_reference(wide(buffers.in), wide(buffers.weight), wide(buffers.bias), buffers.rows,
                                             buffers.columns, kEpsilon, kFloatRounding);
  return {.worst_error = std::max({worst_error(buffers.out, expected.out), worst_error(buffers.mean, expected.mean),
                                   worst_error(buffers.rstd, expected.rstd)}),
          .work = layer_norm_forward().work(shape, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::layer_norm_case(), run); }
