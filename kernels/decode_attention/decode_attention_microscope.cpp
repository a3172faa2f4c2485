// The page behind `./tenfold kernel decode_attention`.
#include "common/kernel_page/kernel_page.h"
#include "decode_attention_case.h"

#include <cuda_bf16.h>

#include <stdexcept>

namespace {

using namespace tenfold::kernels;
namespace simt = tenfold::simt;

using Value = __nv_bfloat16;

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  const DecodeShape s = decode_shape(shape);
  if (s.batch * s.heads * s.capacity * s.head_dim > int64_t{1} << 26)  // minutes under the microscope
    throw std::invalid_argument("decode_attention: batch * heads * keys * head_dim must be at most 2^26");
  const DecodeBuffers<Value> buffers{&device, s, rung};
  // The same values for every rung, wherever it wants them.
  simt::Device other;
  const auto k = other.buffer<Value>("k", s.batch * s.kv_heads * s.capacity * s.head_dim),
             v = other.buffer<Value>("v", k.size());
  simt::fill_normal(48, {buffers.q, k, v});
  std::ranges::fill(buffers.lengths, static_cast<int>(s.capacity));
  if (buffers.paged) {
    fill_pages(buffers.k, k, scattered_pages(s), s);
    fill_pages(buffers.v, v, scattered_pages(s), s);
  } else {
    std::ranges::copy(k, buffers.k.begin());
    std::ranges::copy(v, buffers.v.begin());
  }

  buffers.launch();

  const Rounding weights = rung >= kDecodeTensorCoreRung ? kBfloat16Rounding : kFloatRounding;
  const std::vector<int> lengths(buffers.lengths.begin(), buffers.lengths.end());
  const Expected expected = decode_attention_reference({simt::wide(buffers.q), simt::wide(k), simt::wide(v)}, lengths,
                                                       s, kBfloat16Rounding, weights);
  return {.worst_error = worst_error(buffers.out, expected),
          .work = decode_attention_pass().work(shape, sizeof(Value))};
}

}  // namespace

int main(int argc, char** argv) {
  return tenfold::simt::show(argc, argv, tenfold::kernels::decode_attention_case(), run);
}
