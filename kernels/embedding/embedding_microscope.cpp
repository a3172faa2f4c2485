// The page behind `./tenfold kernel embedding`: forward and backward, one after the other, on the same rung.
#include "common/kernel_page/kernel_page.h"
#include "embedding_case.h"

#include <algorithm>
#include <random>

#include "embedding_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using tenfold::simt::wide;
  const int64_t tokens = shape.at("tokens"), width = shape.at("width"), vocabulary = shape.at("vocabulary");
  const EmbeddingBuffers<float> lookup{&device, tokens, width, vocabulary};
  const EmbeddingBackwardBuffers backward{&device, tokens, width, vocabulary};
  const auto& ids = lookup.ids;
  tenfold::simt::fill_normal(46, {lookup.weight, backward.grad_weight, backward.grad_out});
  std::mt19937 bits(47);
  std::uniform_real_distribution<double> uniform;
  for (int64_t& id : ids) id = word_at(uniform(bits), vocabulary);
  const std::vector<int64_t> known(ids.begin(), ids.end());
  const SortedIds sorted(known);
  std::copy(sorted.ids.begin(), sorted.ids.end(), backward.sorted_ids.begin());
  std::copy(sorted.order.begin(), sorted.order.end(), backward.order.begin());
  const auto before = wide(backward.grad_weight);

  lookup.launch(std::min(rung, kEmbeddingRungs - 1));
  backward.launch(rung);

  const auto expected = embedding_reference(wide(lookup.weight), known, width, vocabulary);
  const auto gradient =
      embedding_backward_reference(before, wide(backward.grad_out), known, width, vocabulary, kFloatRounding);
  const int64_t rows = rows_used(known);
  constexpr int64_t kBytes = sizeof(float);
  return {.worst_error = std::max(worst_error(lookup.out, expected), worst_error(backward.grad_weight, gradient)),
          .work = {.flops = static_cast<double>(tokens * width),
                   .least_bytes = embedding_least_bytes(tokens, width, rows, kBytes) +
                                  embedding_backward_least_bytes(tokens, width, rows, kBytes)}};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::embedding_case(), run); }
