// The page behind `./tenfold kernel repeated_fma`. Its rungs differ in how much arithmetic there is for a byte.
#include "common/kernel_page/kernel_page.h"
#include "repeated_fma.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

constexpr int64_t kUpdates[] = {1, 16, 256};

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  const int64_t count = shape.at("count"), updates = kUpdates[rung];
  constexpr float kFactor = 0.875F, kSummand = 0.25F;
  constexpr double kAllowed = 1e-5;  // each update rounds once, and shrinks the errors before it
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  tenfold::simt::fill_normal(2, {in});
  tenfold::kernels::repeated_fma(&device, out.data(), in.data(), count, updates, kFactor, kSummand);
  tenfold::simt::PageRun result{
      .work = {.flops = 2.0 * static_cast<double>(updates * count), .least_bytes = 8 * count}};
  for (int64_t i = 0; i < count; ++i) {
    double expected = in[i];
    for (int64_t update = 0; update < updates; ++update) expected = kFactor * expected + kSummand;
    const double error = std::abs(out[i] - expected) / kAllowed;
    result.worst_error = error <= 1 ? std::max(result.worst_error, error) : std::numeric_limits<double>::infinity();
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelCase about{
      .name = "repeated_fma",
      .title = "Repeated multiply-adds, a thread for each element",
      .shape = {{"count", 8192}},
      .rungs = {{"1 update", "2 FLOP for 8 bytes: an elementwise operator such as x * 2, bound by memory."},
                {"16 updates", "The same bytes, 32 FLOP: still bound by memory, so that the time is the same."},
                {"256 updates", "The same bytes, 512 FLOP: bound by arithmetic."}}};
  return tenfold::simt::show(argc, argv, about, run);
}
