// The page behind `./tenfold kernel rope`.
#include "common/kernel_page/kernel_page.h"
#include "rope.h"

#include <algorithm>
#include <stdexcept>

#include "rope_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  const int64_t tokens = shape.at("tokens"), heads = shape.at("heads"), head_dim = shape.at("head_dim");
  if (head_dim % 2 != 0) throw std::invalid_argument("head_dim must be even, not " + std::to_string(head_dim));
  const RopeTables tables(tokens, head_dim);
  const auto values = device.buffer<float>("values", tokens * heads * head_dim);
  const auto cosines = device.buffer<float>("cosines", tokens * head_dim / 2),
             sines = device.buffer<float>("sines", tokens * head_dim / 2);
  std::copy(tables.cosines.begin(), tables.cosines.end(), cosines.begin());
  std::copy(tables.sines.begin(), tables.sines.end(), sines.begin());
  tenfold::simt::fill_normal(45, {values});
  const auto before = tenfold::simt::wide(values);

  rope(&device, values.data(), cosines.data(), sines.data(), tokens, heads, head_dim, tokens, Rotation::forward, rung);

  const auto expected =
      rope_reference(before, tables, tokens, heads, head_dim, tokens, Rotation::forward, kFloatRounding);
  return {.worst_error = worst_error(values, expected),
          .flops = 3.0 * static_cast<double>(values.size()),  // two products and a sum
          .least_bytes = (2 * values.size() + cosines.size() + sines.size()) * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "rope",
      .title = "Rotary position embedding of a float tensor, in place",
      .shape = {{"tokens", 32}, {"heads", 8}, {"head_dim", 128}},
      .rungs = {{"elements",
                 "A thread per element reads its partner's value as well: all is read twice, with a barrier between."},
                {"pairs", "A thread has a pair to itself, for all heads: values are read once, and so are the tables."},
                {"vectorised", "A thread moves four neighbouring pairs, 16 bytes per access."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
