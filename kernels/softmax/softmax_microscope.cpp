// The page behind `./tenfold kernel softmax`.
#include "common/kernel_page/kernel_page.h"
#include "softmax_case.h"

#include "softmax_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const tenfold::kernels::SoftmaxBuffers<float> buffers{&device, shape.at("rows"), shape.at("columns")};
  tenfold::simt::fill_normal(42, {buffers.in});

  buffers.launch(rung);

  const auto expected = tenfold::kernels::softmax_reference(tenfold::simt::wide(buffers.in), buffers.rows,
                                                            buffers.columns, tenfold::kernels::kFloatRounding);
  return {.worst_error = tenfold::kernels::worst_error(buffers.out, expected),
          .work = tenfold::kernels::softmax_forward().work(shape, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::softmax_case(), run); }
