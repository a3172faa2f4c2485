// The page behind `./tenfold kernel pack`: pack, then unpack, on the same rung.
#include "common/kernel_page/kernel_page.h"
#include "pack.h"

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
  const auto padded = device.buffer<float>("padded", count),
             packed = device.buffer<float>("packed", std::max<int64_t>(total * width, 1));
  const auto back = device.buffer<float>("unpacked", count);
  const auto cu_seqlens = device.buffer<int32_t>("cu_seqlens", batch + 1);  // for pack; unpack shows the other type
  const auto cu_seqlens_64 = device.buffer<int64_t>("cu_seqlens_64", batch + 1);
  std::copy(begin.begin(), begin.end(), cu_seqlens.begin());
  std::copy(begin.begin(), begin.end(), cu_seqlens_64.begin());
  tenfold::simt::fill_normal(51, {padded});

  pack(&device, packed.data(), padded.data(), cu_seqlens.data(), batch, length, width, total, rung);
  unpack(&device, back.data(), packed.data(), cu_seqlens_64.data(), batch, length, width, total, /*padding=*/0, rung);

  const Expected expected = pack_reference(wide(padded), lengths, length, width);
  const Expected expected_back = unpack_reference(expected.values, lengths, length, width, 0);
  const auto bytes = static_cast<int64_t>(sizeof(float));
  return {.worst_error = std::max(worst_error(packed, expected), worst_error(back, expected_back)),
          // Each sequence read and written by both, the padding written, and the offsets.
          .least_bytes = (3 * total * width + count) * bytes +
                         (batch + 1) * static_cast<int64_t>(sizeof(int32_t) + sizeof(int64_t))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "pack",
      .title = "Sequences of different lengths: packed without padding, and unpacked",
      .shape = {{"batch", 8}, {"length", 32}, {"width", 128}},
      .rungs = {{"per element", "A thread moves one element, and searches for its sequence alone."},
                {"per row", "A block moves a row, and one of its threads searches."},
                {"vectorised", "16 bytes per access: the same sectors in a quarter of the requests."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
