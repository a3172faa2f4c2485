// The page behind `./tenfold kernel transpose`.
#include "common/kernel_page/kernel_page.h"
#include "transpose_case.h"

#include <limits>

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const tenfold::kernels::TransposeBuffers buffers{&device, shape.at("rows"), shape.at("columns")};
  tenfold::simt::fill_normal(40, {buffers.in});

  buffers.launch(rung);

  tenfold::simt::PageRun result{.work = tenfold::kernels::transpose_pass().work(shape, sizeof(float))};
  // A copy has no rounding: each element is right or wrong.
  for (int64_t row = 0; row < buffers.rows; ++row) {
    for (int64_t column = 0; column < buffers.columns; ++column) {
      if (buffers.out[column * buffers.rows + row] != buffers.in[row * buffers.columns + column])
        result.worst_error = std::numeric_limits<double>::infinity();
    }
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::transpose_case(), run); }
