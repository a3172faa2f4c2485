// The page behind `./tenfold kernel rope`.
#include "common/kernel_page/kernel_page.h"
#include "rope_case.h"

#include <algorithm>
#include <stdexcept>

#include "rope_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  const int64_t tokens = shape.at("tokens"), heads = shape.at("heads"), head_dim = shape.at("head_dim");
  if (head_dim % 2 != 0) throw std::invalid_argument("head_dim must be even, not " + std::to_string(head_dim));
  const RopeTables tables(tokens, head_dim);
  const RopeBuffers<float> buffers{&device, tokens, heads, head_dim, /*positions=*/tokens};
  std::copy(tables.cosines.begin(), tables.cosines.end(), buffers.cosines.begin());
  std::copy(tables.sines.begin(), tables.sines.end(), buffers.sines.begin());
  tenfold::simt::fill_normal(45, {buffers.values});
  const auto before = tenfold::simt::wide(buffers.values);

  buffers.launch(rung);

  const auto expected =
      rope_reference(before, tables, tokens, heads, head_dim, tokens, Rotation::forward, kFloatRounding);
  tenfold::simt::Shape with_positions = shape;
  with_positions["positions"] = tokens;
  return {.worst_error = worst_error(buffers.values, expected),
          .work = rope_pass().work(with_positions, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::rope_case(), run); }
