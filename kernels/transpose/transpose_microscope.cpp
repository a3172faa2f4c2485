// The page behind `./tenfold kernel transpose`.
#include "common/kernel_page/kernel_page.h"
#include "transpose.h"

#include <limits>

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  tenfold::simt::fill_normal(40, {in});

  tenfold::kernels::transpose(&device, out.data(), in.data(), rows, columns, rung);

  tenfold::simt::PageRun result{.least_bytes = 2 * count * static_cast<int64_t>(sizeof(float))};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {  // a copy has no rounding: each element is right or wrong
      if (out[column * rows + row] != in[row * columns + column])
        result.worst_error = std::numeric_limits<double>::infinity();
    }
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "transpose",
      .title = "Transpose of a float matrix",
      .shape = {{"rows", 256}, {"columns", 256}},
      .rungs =
          {{"naive read",
            "One thread moves one element, and the threads of a warp read neighbours: each store touches 32 rows."},
           {"naive write", "The threads of a warp write neighbours instead: now each load touches 32 rows."},
           {"tiled", "A tile in shared memory turns the order around, so that loads and stores both touch neighbours."},
           {"padded", "One float of padding per row puts the words of a tile's column into different banks."},
           {"vectorised",
            "A thread moves 16 bytes per access and four of them per side: fewer requests, more bytes in flight."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
