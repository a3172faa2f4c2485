// The page behind `./tenfold kernel layer_norm`.
#include "common/kernel_page/kernel_page.h"
#include "layer_norm.h"

#include <algorithm>

#include "layer_norm_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  const auto weight = device.buffer<float>("weight", columns), bias = device.buffer<float>("bias", columns);
  const auto mean = device.buffer<float>("mean", rows), rstd = device.buffer<float>("rstd", rows);
  tenfold::simt::fill_normal(43, {in, weight, bias});
  constexpr float kEpsilon = 1e-5F;

  layer_norm(&device, out.data(), mean.data(), rstd.data(), in.data(), weight.data(), bias.data(), rows, columns,
             kEpsilon, rung);

  const auto expected =
      layer_norm_reference(wide(in), wide(weight), wide(bias), rows, columns, kEpsilon, kFloatRounding);
  return {.worst_error = std::max(
              {worst_error(out, expected.out), worst_error(mean, expected.mean), worst_error(rstd, expected.rstd)}),
          .flops = 8.0 * static_cast<double>(count),  // mean 1; variance 3; subtract, two products and the bias 4
          .least_bytes = 2 * (count + columns + rows) * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "layer_norm",
      .title = "Layer normalisation of the rows of a float matrix",
      .shape = {{"rows", 64}, {"columns", 1024}},
      .rungs =
          {{"thread rows", "One thread does one row in three passes, so each load of a warp touches 32 rows."},
           {"shared sums",
            "A block does one row: lanes read neighbours, and the sums meet in a tree in shared memory."},
           {"one pass",
            "Welford's update and shuffles find mean and variance in one pass with two barriers instead of twenty."},
           {"vectorised", "A thread moves 16 bytes per access and divides once for four values."},
           {"held",
            "The row stays in registers: one read, and two plain sums in place of mean and variance together."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
