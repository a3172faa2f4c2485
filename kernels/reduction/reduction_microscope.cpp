// The page behind `./tenfold kernel reduction`.
#include "common/kernel_page/kernel_page.h"
#include "reduction.h"

#include <cmath>

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using tenfold::kernels::ReductionWorkspace;
  const int64_t n = shape.at("n");
  const auto in = device.buffer<float>("in", n), out = device.buffer<float>("out", 1);
  const auto workspace = device.buffer<ReductionWorkspace>("workspace", 1);
  workspace[0].blocks_done = 0;
  tenfold::simt::fill_normal(41, {in});

  tenfold::kernels::reduce_sum(&device, out.data(), in.data(), n, workspace.data(), rung);

  double sum = 0;
  for (const float value : in) sum += value;
  return {.worst_error = std::abs(out[0] - sum) / (4 * tenfold::kernels::reduction_error(n, rung)),
          .flops = static_cast<double>(n - 1),
          .least_bytes = (n + 1) * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "reduction",
      .title = "Sum of many floats",
      .shape = {{"n", 65536}},
      .rungs =
          {{"atomic", "Every thread adds its element to the one result, and all of them queue for it."},
           {"interleaved",
            "A block adds up its elements as a tree in shared memory, with partners 1, 2, 4, ... places away."},
           {"sequential",
            "With partners 128, 64, 32, ... places away, whole warps drop out instead of lanes of all warps."},
           {"grid stride", "A thread adds up many elements as it loads them, before the tree begins."},
           {"shuffles", "The lanes of a warp exchange registers: almost no shared memory and one barrier."},
           {"last block",
            "16-byte loads, and the last block to end adds up all sums in a fixed order: one launch, the same bits."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
