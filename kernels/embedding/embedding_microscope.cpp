// The page behind `./tenfold kernel embedding`: forward and backward, one after the other, on the same rung.
#include "common/kernel_page/kernel_page.h"
#include "embedding.h"

#include <algorithm>
#include <random>
#include <set>

#include "embedding_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const int64_t tokens = shape.at("tokens"), width = shape.at("width"), vocabulary = shape.at("vocabulary");
  const auto weight = device.buffer<float>("weight", vocabulary * width),
             out = device.buffer<float>("out", tokens * width);
  const auto grad_weight = device.buffer<float>("grad_weight", vocabulary * width);
  const auto grad_out = device.buffer<float>("grad_out", tokens * width);
  const auto workspace = device.buffer<float>("workspace", embedding_workspace_bytes(tokens, width) / 4);
  const auto ids = device.buffer<int64_t>("ids", tokens), order = device.buffer<int64_t>("order", tokens);
  const auto sorted_ids = device.buffer<int64_t>("sorted_ids", tokens);
  tenfold::simt::fill_normal(46, {weight, grad_weight, grad_out});
  // Ids as words are: id k about twice as often as id 2 k.
  std::mt19937 bits(47);
  std::uniform_real_distribution<double> uniform;
  for (int64_t& id : ids) id = static_cast<int64_t>(std::pow(static_cast<double>(vocabulary), uniform(bits))) - 1;
  const std::vector<int64_t> known(ids.begin(), ids.end());
  const SortedIds sorted(known);
  std::copy(sorted.ids.begin(), sorted.ids.end(), sorted_ids.begin());
  std::copy(sorted.order.begin(), sorted.order.end(), order.begin());
  const auto before = wide(grad_weight);

  embedding(&device, out.data(), weight.data(), ids.data(), tokens, width, vocabulary,
            std::min(rung, kEmbeddingRungs - 1));
  embedding_backward(&device, grad_weight.data(), workspace.data(), grad_out.data(), sorted_ids.data(), order.data(),
                     tokens, width, vocabulary, rung);

  const auto expected = embedding_reference(wide(weight), known, width, vocabulary);
  const auto gradient = embedding_backward_reference(before, wide(grad_out), known, width, vocabulary, kFloatRounding);
  const auto rows = static_cast<int64_t>(std::set<int64_t>(known.begin(), known.end()).size());
  return {.worst_error = std::max(worst_error(out, expected), worst_error(grad_weight, gradient)),
          .flops = static_cast<double>(tokens * width),
          // Of the rows that are used: weight read, its gradient read and written; out written, grad_out read; the ids,
          // sorted ids and order.
          .least_bytes = (3 * rows + 2 * tokens) * width * static_cast<int64_t>(sizeof(float)) +
                         3 * tokens * static_cast<int64_t>(sizeof(int64_t))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "embedding",
      .title = "Rows of a table picked by ids, and gradients added back to them",
      .shape = {{"tokens", 128}, {"width", 256}, {"vocabulary", 200}},
      .rungs = {{"naive",
                 "A thread copies a token's row, 32 rows in each load of a warp; gradients are added with atomics."},
                {"runs",
                 "A block copies a row; of tokens sorted by id, a block adds up each run: no atomics, the same bits "
                 "always."},
                {"vectorised", "16 bytes per access, and eight rows of a run at once."},
                {"chunks",
                 "The copy as before; a block adds up 32 places of the sorted ids, whatever runs they hold."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
