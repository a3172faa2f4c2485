// The page behind `./tenfold kernel pack`: pack, then unpack, on the same rung.
#include "common/kernel_page/kernel_page.h"
#include "pack_case.h"

#include <algorithm>
#include <random>
#include <vector>

#include "pack_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const int64_t batch = shape.at("batch"), length = shape.at("length"), width = shape.at("width");
  std::mt19937 bits(50);
  std::vector<int64_t> lengths;  // from empty to full, half of it on average
  for (int64_t b = 0; b < batch; ++b)
    lengths.push_back(static_cast<int64_t>(bits() % static_cast<uint32_t>(length + 1)));
  const auto begin = beginnings(lengths);
  const int64_t total = begin.back(), count = batch * length * width;
  const PackBuffers<float, int32_t> buffers{&device, batch, length, width, total};
  const auto back = device.buffer<float>("unpacked", count);
  const auto cu_seqlens_64 = device.buffer<int64_t>("cu_seqlens_64", batch + 1);  // pack has 32 bits: both are taken
  std::copy(begin.begin(), begin.end(), buffers.cu_seqlens.begin());
  std::copy(begin.begin(), begin.end(), cu_seqlens_64.begin());
  tenfold::simt::fill_normal(51, {buffers.padded});

  buffers.pack(rung);
  unpack(&device, back.data(), buffers.packed.data(), cu_seqlens_64.data(), batch, length, width, total, /*padding=*/0,
         rung);

  const Expected expected = pack_reference(wide(buffers.padded), lengths, length, width);
  const Expected expected_back = unpack_reference(expected.values, lengths, length, width, 0);
  return {.worst_error = std::max(worst_error(buffers.packed, expected), worst_error(back, expected_back)),
          .work = {.least_bytes = pack_least_bytes(batch, total, width, sizeof(float), sizeof(int32_t)) +
                                  unpack_least_bytes(batch, length, total, width, sizeof(float), sizeof(int64_t))}};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::pack_case(), run); }
