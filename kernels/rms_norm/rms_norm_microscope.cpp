// The page behind `./tenfold kernel rms_norm`.
#include "common/kernel_page/kernel_page.h"
#include "rms_norm_case.h"

#include <algorithm>

#include "rms_norm_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const RmsNormBuffers<float> buffers{&device, shape.at("rows"), shape.at("columns")};
  tenfold::simt::fill_normal(44, {buffers.in, buffers.weight});
  constexpr float kEpsilon = 1e-5F;

  buffers.launch(kEpsilon, rung);

  const auto expected = rms_norm_reference(wide(buffers.in), wide(buffers.weight), buffers.rows, buffers.columns,
                                           kEpsilon, kFloatRounding);
  return {.worst_error = std::max(worst_error(buffers.out, expected.out), worst_error(buffers.rstd, expected.rstd)),
          .work = rms_norm_forward().work(shape, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::rms_norm_case(), run); }
