// Rotary position embedding, in place: our rungs beside the formula in LibTorch's operators.
#include "ladder.h"

#include "kernels/rope/rope_case.h"
#include "kernels/rope/rope_torch.h"

namespace {
using namespace tenfold::bench;

Ladder rotate(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::rope_pass();
  const simt::Shape shape = place.pick(pass, {{"tokens", 6}, {"heads", 3}, {"head_dim", 10}, {"positions", 3}});
  const int64_t tokens = shape.at("tokens"), heads = shape.at("heads"), head_dim = shape.at("head_dim"),
                positions = shape.at("positions"), sequences = tokens / positions;
  const Tensor given = place.normal({sequences, positions, heads, head_dim}, type), values = given.clone();
  const Tensor angles = place.normal({positions, head_dim / 2}), cosines = angles.cos(), sines = angles.sin();
  // In float, as the kernel: with values and tables in bfloat16 it would err by more than its result is allowed to.
  const auto by_formula = [=] { return reference::rope(given.to(torch::kFloat), {cosines, sines}).to(type); };
  Ladder ladder{.name = ladder_name("RoPE", type, {tokens, heads, head_dim}),
                .bytes = least_bytes_of(pass, shape, type),
                .expected = {reference::rope(given.to(torch::kDouble), {cosines, sines})},
                .tolerance = type == torch::kFloat ? 1e-5 : 2e-2,
                .contestants = {{"formula", [=] { return std::vector{by_formula()}; }}}};
  add_rungs(ladder, kernels::kRopeRungs, [=](int rung) {
    launch_where_they_are({{"values", values}, {"cosines", cosines}, {"sines", sines}}, [&](auto stream, auto value) {
      using T = decltype(value);
      kernels::rope(stream, data_of<T>(values), data_of<float>(cosines), data_of<float>(sines), tokens, heads, head_dim,
                    positions, kernels::Rotation::forward, rung);
    });
    return std::vector{values};
  });
  for (Contestant& contestant : ladder.contestants)
    contestant.prepare = [=] { values.copy_(given); };  // rotated in place
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return rotate(place, torch::kFloat); },
              [](const Place& place) { return rotate(place, torch::kBFloat16); }});
}
