// Embedding: our rungs beside ATen's kernels, the lookup and the gradient of the table.
#include "ladder.h"

#include "kernels/embedding/embedding_case.h"
#include "kernels/embedding/embedding_torch.h"

namespace {
using namespace tenfold::bench;

/// How many different ids there are: rows of the table that are used.
int64_t different(const Tensor& ids) { return std::get<0>(at::_unique(ids)).numel(); }

Ladder lookup(const Place& place, torch::ScalarType type) {
  const simt::Shape shape =
      place.pick(kernels::embedding_forward(), {{"tokens", 7}, {"width", 123}, {"vocabulary", 11}});
  const int64_t tokens = shape.at("tokens"), width = shape.at("width"), vocabulary = shape.at("vocabulary");
  const Tensor weight = place.normal({vocabulary, width}, type), out = torch::empty({tokens, width}, weight.options());
  const Tensor ids = torch::randint(vocabulary, {tokens}, weight.options().dtype(torch::kLong));
  Ladder ladder{.name = ladder_name("embedding", type, {tokens, width}),
                .bytes = static_cast<double>(
                    kernels::embedding_least_bytes(tokens, width, different(ids), weight.element_size())),
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

/// Of float, for which all rungs are. Ids as words are: id k about twice as often as id 2 k.
Ladder backward(const Place& place) {
  const simt::Shape shape =
      place.pick(kernels::embedding_backward_pass(), {{"tokens", 70}, {"width", 36}, {"vocabulary", 11}});
  const int64_t tokens = shape.at("tokens"), width = shape.at("width"), vocabulary = shape.at("vocabulary");
  const Tensor grad_out = place.normal({tokens, width});
  const Tensor ids = torch::pow(static_cast<double>(vocabulary), torch::rand({tokens}, grad_out.options()))
                         .to(torch::kLong)
                         .clamp(1, vocabulary) -
                     1;
  const auto sorted = at::sort(ids, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor sorted_ids = std::get<0>(sorted), order = std::get<1>(sorted);
  const Tensor grad_weight = place.normal({vocabulary, width});
  const Tensor workspace = place.normal({kernels::embedding_workspace_bytes(tokens, width) / 4});
  const auto by_aten = [=](const Tensor& grad) {
    return std::vector{at::embedding_dense_backward(grad, ids, vocabulary, /*padding_idx=*/-1,
                                                    /*scale_grad_by_freq=*/false)};
  };
  Ladder ladder{.name = ladder_name("embedding backward", torch::kFloat, {tokens, width}),
                .bytes = static_cast<double>(
                    kernels::embedding_backward_least_bytes(tokens, width, different(ids), sizeof(float))),
                .expected = by_aten(grad_out.to(torch::kDouble)),
                .tolerance = 1e-4,
                .contestants = {{"ATen", [=] { return by_aten(grad_out); }}}};
  add_rungs(ladder, kernels::kEmbeddingBackwardRungs, [=](int rung) {
    launch_where_they_are({{"grad_weight", grad_weight},
                           {"workspace", workspace},
                           {"grad_out", grad_out},
                           {"ids", sorted_ids},
                           {"order", order}},
                          [&](auto stream, auto) {
                            kernels::embedding_backward(stream, data_of<float>(grad_weight), data_of<float>(workspace),
                                                        data_of<float>(grad_out), data_of<int64_t>(sorted_ids),
                                                        data_of<int64_t>(order), tokens, width, vocabulary, rung);
                          });
    return std::vector{grad_weight};
  });
  for (Contestant& contestant : ladder.contestants)
    contestant.prepare = [=] { grad_weight.zero_(); };  // added to; ATen's own begins with zeros each time
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return lookup(place, torch::kFloat); },
              [](const Place& place) { return lookup(place, torch::kBFloat16); }, backward});
}
