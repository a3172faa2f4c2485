// The page behind `./tenfold kernel strided_copy`. Its rungs are not better and better: each stands further apart.
#include "common/kernel_page/kernel_page.h"
#include "strided_copy.h"

#include <limits>
#include <numeric>

namespace {

struct Reach {
  int64_t stride, offset;
};
constexpr Reach kReaches[] = {{1, 0}, {1, 1}, {2, 0}, {8, 0}, {32, 0}};

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const int64_t count = shape.at("count");
  const auto [stride, offset] = kReaches[rung];
  const auto in = device.buffer<float>("in", offset + count * stride), out = device.buffer<float>("out", count);
  std::iota(in.begin(), in.end(), 1.0F);
  tenfold::kernels::strided_copy(&device, out.data(), in.data(), count, stride, offset);
  tenfold::simt::PageRun result{.work = {.least_bytes = 8 * count}};
  for (int64_t i = 0; i < count; ++i) {
    if (out[i] != in[offset + i * stride]) result.worst_error = std::numeric_limits<double>::infinity();
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelCase about{
      .name = "strided_copy",
      .title = "A copy whose lanes read further and further apart",
      .shape = {{"count", 8192}},
      .rungs = {{"neighbours", "Lane i reads float i: 32 lanes, 128 bytes, 4 sectors."},
                {"shifted", "The same 128 bytes begin one float later and straddle a fifth sector."},
                {"stride 2", "Every second float: half of each sector is thrown away."},
                {"stride 8", "One float of each sector: 32 sectors for 32 floats."},
                {"stride 32", "Further apart costs no more sectors; only caches and DRAM pages could still suffer."}}};
  return tenfold::simt::show(argc, argv, about, run);
}
