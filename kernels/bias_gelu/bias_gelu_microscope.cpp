// The page behind `./tenfold kernel bias_gelu`.
#include "bias_gelu.h"
#include "common/kernel_page/kernel_page.h"

#include "bias_gelu_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<float>("in", count), bias = device.buffer<float>("bias", columns),
             out = device.buffer<float>("out", count);
  tenfold::simt::fill_normal(44, {in, bias});

  bias_gelu(&device, out.data(), in.data(), bias.data(), rows, columns, Gelu::tanh, rung);

  const auto expected = bias_gelu_reference(wide(in), wide(bias), Gelu::tanh, kFloatRounding, /*unfused=*/rung == 0);
  return {.worst_error = worst_error(out, expected),
          .flops = 9.0 * static_cast<double>(
                             count),  // the bias 1; the cubic 4, with the scale; tanh 1; one more, half of x, times it
          .least_bytes = (2 * count + columns) * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "bias_gelu",
      .title = "GELU (tanh) of a float matrix plus a bias",
      .shape = {{"rows", 64}, {"columns", 1024}},
      .rungs = {{"unfused", "Two kernels, one for the sum and one for GELU: the matrix goes through memory twice."},
                {"fused", "The sum stays in a register, so the matrix is read once and written once."},
                {"vectorised", "A thread moves 16 bytes per access: the same sectors in a quarter of the requests."},
                {"short formula", "tanh is one power of two and one division: half the instructions for each value."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
