// The page behind `./tenfold kernel tile_copy`. The second rung is the worse one.
#include "common/kernel_page/kernel_page.h"
#include "tile_copy.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const int64_t count = shape.at("count");
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  std::iota(in.begin(), in.end(), 1.0F);
  tenfold::kernels::tile_copy(&device, out.data(), in.data(), count, rung);
  tenfold::simt::PageRun result{.work = {.least_bytes = 8 * count}};
  if (!std::equal(in.begin(), in.end(), out.begin())) result.worst_error = std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelCase about{
      .name = "tile_copy",
      .title = "A copy, straight and through a tile in shared memory",
      .shape = {{"count", 8192}},
      .rungs = {
          {"straight", "Each thread loads a float and stores it."},
          {"through tile", "The float goes through shared memory: the same sectors, two more passes and a barrier."}}};
  return tenfold::simt::show(argc, argv, about, run);
}
