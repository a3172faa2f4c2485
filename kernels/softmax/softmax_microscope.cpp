// The page behind `./tenfold kernel softmax`.
#include "common/kernel_page/kernel_page.h"
#include "softmax.h"

#include "softmax_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  tenfold::simt::fill_normal(42, {in});

  tenfold::kernels::softmax(&device, out.data(), in.data(), rows, columns, rung);

  const auto expected =
      tenfold::kernels::softmax_reference(tenfold::simt::wide(in), rows, columns, tenfold::kernels::kFloatRounding);
  return {.worst_error = tenfold::kernels::worst_error(out, expected),
          .flops = 5.0 * static_cast<double>(count),  // compare, subtract, exp, add, multiply
          .least_bytes = 2 * count * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "softmax",
      .title = "Softmax over the rows of a float matrix",
      .shape = {{"rows", 64}, {"columns", 1024}},
      .rungs = {{"thread rows", "One thread does one row in three passes, so each load of a warp touches 32 rows."},
                {"warp rows", "A warp does one row: its lanes read neighbours and join their results with shuffles."},
                {"online",
                 "One pass finds the largest value and the sum together: two reads of the row instead of three."},
                {"block rows", "A block does one row with 16-byte accesses: a quarter of the requests."},
                {"held", "The row stays in registers: one read, and nothing is online."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
