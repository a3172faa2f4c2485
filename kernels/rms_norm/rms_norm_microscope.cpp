// The page behind `./tenfold kernel rms_norm`.
#include "common/kernel_page/kernel_page.h"
#include "rms_norm.h"

#include <algorithm>

#include "rms_norm_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  const auto weight = device.buffer<float>("weight", columns), rstd = device.buffer<float>("rstd", rows);
  tenfold::simt::fill_normal(44, {in, weight});
  constexpr float kEpsilon = 1e-5F;

  rms_norm(&device, out.data(), rstd.data(), in.data(), weight.data(), rows, columns, kEpsilon, rung);

  const auto expected = rms_norm_reference(wide(in), wide(weight), rows, columns, kEpsilon, kFloatRounding);
  return {.worst_error = std::max(worst_error(out, expected.out), worst_error(rstd, expected.rstd)),
          .flops = 4.0 * static_cast<double>(count),  // a square and its sum 2; two products 2
          .least_bytes = (2 * count + columns + rows) * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "rms_norm",
      .title = "Root-mean-square normalisation of the rows of a float matrix",
      .shape = {{"rows", 64}, {"columns", 1024}},
      .rungs = {{"thread rows", "One thread does one row in two passes, so each load of a warp touches 32 rows."},
                {"warp rows",
                 "A warp does one row: lanes read neighbours, and shuffles join the sums without a barrier."},
                {"vectorised", "A block does one row, 16 bytes per access, with up to sixteen warps on a long row."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
