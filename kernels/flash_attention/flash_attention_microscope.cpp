// The page behind `./tenfold kernel flash_attention`.
#include "common/kernel_page/kernel_page.h"
#include "flash_attention_case.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <stdexcept>

#include "flash_attention_reference.h"

namespace {

using namespace tenfold::kernels;
namespace simt = tenfold::simt;

using Value = __nv_bfloat16;  // the last rung takes no float, and all should move values of the same size

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  simt::Shape one_head = shape;
  one_head.merge(simt::Shape{{"batch", 1}, {"heads", 1}, {"head_dim", 64}, {"causal", 0}});
  const AttentionShape attention = attention_shape(one_head);
  if (std::max(attention.queries, attention.keys) > 4096) {  // minutes under the microscope
    throw std::invalid_argument("flash_attention: queries and keys must be at most 4096");
  }
  const AttentionBuffers<Value> buffers{&device, attention, rung};
  simt::fill_normal(46, {buffers.q, buffers.k, buffers.v});

  buffers.launch();

  const Rounding weights = rung >= 3 ? kBfloat16Rounding : kFloatRounding;
  const auto expected = flash_attention_reference({simt::wide(buffers.q), simt::wide(buffers.k), simt::wide(buffers.v)},
                                                  attention, kBfloat16Rounding, weights);
  return {.worst_error =
              std::max(worst_error(buffers.out, expected.out), worst_error(buffers.logsumexp, expected.logsumexp)),
          .work = flash_attention_forward().work(one_head, sizeof(Value))};
}

}  // namespace

int main(int argc, char** argv) {
  return tenfold::simt::show(argc, argv, tenfold::kernels::flash_attention_case(), run);
}
