// Cross-entropy, loss and gradient: our rungs beside ATen's forward and backward.
#include "ladder.h"

#include "kernels/cross_entropy/cross_entropy_case.h"
#include "kernels/cross_entropy/cross_entropy_torch.h"

namespace {
using namespace tenfold::bench;

Ladder loss_and_gradient(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::cross_entropy_pass();
  const simt::Shape shape = place.pick(pass, {{"rows", 5}, {"classes", 123}});
  const int64_t rows = shape.at("rows"), classes = shape.at("classes");
  const Tensor given = place.normal({rows, classes}, type),
               targets = torch::randint(classes, {rows}, given.options().dtype(torch::kLong));
  const Tensor logits = given.clone(), mean = place.normal({1}), losses = place.normal({rows}),
               counted = torch::zeros({1}, targets.options());
  const auto by_aten = [targets](const Tensor& in) {
    const Tensor x = leaf(in, in.scalar_type()), loss = reference::cross_entropy(x, targets);
    return std::vector{loss.detach().reshape({1}), torch::autograd::grad({loss}, {x})[0]};
  };
  Ladder ladder{.name = ladder_name("cross-entropy", type, {rows, classes}),
                .bytes = least_bytes_of(pass, shape, type),
                .expected = by_aten(given.to(torch::kDouble)),
                .tolerance = type == torch::kFloat ? 1e-4 : 2e-2,
                .contestants = {{"ATen", [=] { return by_aten(given); }}}};
  add_rungs(ladder, kernels::kCrossEntropyRungs, [=](int rung) {
    launch_where_they_are(
        {{"logits", logits}, {"mean", mean}, {"losses", losses}, {"counted", counted}, {"targets", targets}},
        [&](auto stream, auto value) {
          using T = decltype(value);
          kernels::cross_entropy(stream, data_of<T>(logits), data_of<float>(mean), data_of<float>(losses),
                                 data_of<int64_t>(counted), data_of<int64_t>(targets), rows, classes,
                                 kernels::kIgnoreIndex, rung);
        });
    return std::vector{mean, logits};
  });
  // The gradient has taken the logits' place.
  for (Contestant& contestant : ladder.contestants) contestant.prepare = [=] { logits.detach().copy_(given); };
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return loss_and_gradient(place, torch::kFloat); },
              [](const Place& place) { return loss_and_gradient(place, torch::kBFloat16); }});
}
