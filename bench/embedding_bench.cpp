// Embedding: our rungs beside ATen's lookup.
#include "ladder.h"

#include "kernels/embedding/embedding.h"
#include "kernels/embedding/embedding_torch.h"

namespace {
using namespace tenfold::bench;

Ladder lookup(const Place& place, torch::ScalarType type) {
  const int64_t tokens = place.pick(32768, 7), width = place.pick(4096, 123), vocabulary = place.pick(50304, 11);
  const Tensor weight = place.normal({vocabulary, width}, type), out = torch::empty({tokens, width}, weight.options());
  const Tensor ids = torch::randint(vocabulary, {tokens}, weight.options().dtype(torch::kLong));
  Ladder ladder{.name = ladder_name("embedding", type, {tokens, width}),
                .bytes = 2.0 * static_cast<double>(out.nbytes()),
                .expected = {reference::embedding(weight, ids)},
                .contestants = {{"ATen", [=] { return std::vector{reference::embedding(weight, ids)}; }}}};
  add_rungs(ladder, kernels::kEmbeddingRungs, [=](int rung) {
    launch_where_they_are({{"out", out}, {"weight", weight}, {"ids", ids}}, [&](auto stream, auto value) {
      using T = decltype(value);
      kernels::embedding(stream, data_of<T>(out), data_of<T>(weight), data_of<int64_t>(ids), tokens, width, vocabulary,
                         rung);
    });
    return std::vector{out};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return lookup(place, torch::kFloat); },
              [](const Place& place) { return lookup(place, torch::kBFloat16); }});
}
