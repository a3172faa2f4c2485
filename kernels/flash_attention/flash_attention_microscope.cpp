// The page behind `./tenfold kernel flash_attention`.
#include "common/kernel_page/kernel_page.h"
#include "flash_attention.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <stdexcept>

#include "flash_attention_reference.h"

namespace {

using namespace tenfold::kernels;
namespace simt = tenfold::simt;

using Value = __nv_bfloat16;  // the last rung takes no float, and all should move values of the same size

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  const AttentionShape attention{.queries = shape.at("queries"), .keys = shape.at("keys"), .head_dim = 64};
  if (std::max(attention.queries, attention.keys) > 4096) {  // minutes under the microscope
    throw std::invalid_argument("flash_attention: queries and keys must be at most 4096");
  }
  const int64_t query_values = attention.queries * attention.head_dim, key_values = attention.keys * attention.head_dim;
  const auto q = device.buffer<Value>("q", query_values), out = device.buffer<Value>("out", query_values);
  const auto k = device.buffer<Value>("k", key_values), v = device.buffer<Value>("v", key_values);
  const auto logsumexp = device.buffer<float>("logsumexp", attention.queries);
  const auto scores =
      device.buffer<float>("scores", std::max<int64_t>(1, flash_attention_workspace_bytes(attention, rung) / 4));
  simt::fill_normal(46, {q, k, v});

  flash_attention(&device, out.data(), logsumexp.data(), scores.data(), q.data(), k.data(), v.data(), attention, rung);

  const Rounding weights = rung >= 3 ? kBfloat16Rounding : kFloatRounding;
  const auto expected =
      flash_attention_reference({simt::wide(q), simt::wide(k), simt::wide(v)}, attention, kBfloat16Rounding, weights);
  return {.worst_error = std::max(worst_error(out, expected.out), worst_error(logsumexp, expected.logsumexp)),
          .flops = 4.0 * static_cast<double>(attention.queries * attention.keys * attention.head_dim),  // two products
          .least_bytes = 2 * (query_values + key_values) * static_cast<int64_t>(sizeof(Value)) + 4 * attention.queries};
}

}  // namespace

int main(int argc, char** argv) {
  const simt::KernelPage page{
      .name = "flash_attention",
      .title = "Attention of one head of 64 in bfloat16",
      .shape = {{"queries", 128}, {"keys", 128}},
      .rungs = {{"materialised", "Scores go to memory, and come back for the softmax and for the product with v."},
                {"online",
                 "Keys come by in tiles, and what was summed is scaled down when a larger score comes: no score is "
                 "written."},
                {"registers",
                 "A lane keeps a tile of scores and of results in registers, and scales once for a tile of keys."},
                {"tensor cores", "Products by mma.sync on operands from ldmatrix, in 16 bits."},
                {"copies ahead", "The next tile is on its way by cp.async while this one is worked on."},
                {"wide warps",
                 "A warp has 32 queries: what ldmatrix brings of keys and values serves twice as many products."}},
      .run = run};
  return simt::show(argc, argv, page);
}
