// Rotary position embedding, in place: our rungs beside the formula in LibTorch's operators.
#include "ladder.h"

#include <tenfold/rope.h>

#include "../kernels/torch_binding.h"

namespace {
using namespace tenfold::bench;
using tenfold::fused::data_of;
using tenfold::fused::launch_where_they_are;
using torch::Tensor;
namespace kernels = tenfold::kernels;

Ladder rotate(const Place& place, torch::ScalarType type) {
  const int64_t tokens = place.pick(32768, 6), heads = place.pick(16, 3), head_dim = place.pick(128, 10), positions = place.pick(4096, 3);
  const Tensor given = place.normal({tokens, heads, head_dim}, type), values = given.clone();
  const Tensor angles = place.normal({positions, head_dim / 2}), cosines = angles.cos(), sines = angles.sin();
  const auto by_formula = [=](const Tensor& in, torch::ScalarType wide) {
    const auto table = [&](const Tensor& t) { return t.to(wide).repeat({tokens / positions, 1}).unsqueeze(1); };  // (tokens, 1, half)
    const std::vector<Tensor> halves = in.to(wide).chunk(2, -1);
    const Tensor c = table(cosines), s = table(sines);
    return torch::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(in.scalar_type());
  };
  Ladder ladder{.name = ladder_name("RoPE", type, {tokens, heads, head_dim}),
                .bytes = 2.0 * static_cast<double>(values.nbytes()),
                .expected = {by_formula(given.to(torch::kDouble), torch::kDouble)},
                .tolerance = type == torch::kFloat ? 1e-5 : 2e-2,
                .contestants = {{"formula", [=] { return std::vector{by_formula(given, torch::kFloat)}; }}}};
  add_rungs(ladder, kernels::kRopeRungs, [=](int rung) {
    launch_where_they_are({{"values", values}, {"cosines", cosines}, {"sines", sines}}, [&](auto stream, auto value) {
      using T = decltype(value);
      kernels::rope(stream, data_of<T>(values), data_of<float>(cosines), data_of<float>(sines), tokens, heads, head_dim, positions,
                    kernels::Rotation::forward, rung);
    });
    return std::vector{values};
  });
  for (Contestant& contestant : ladder.contestants) contestant.prepare = [=] { values.copy_(given); };  // rotated in place
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return rotate(place, torch::kFloat); },
              [](const Place& place) { return rotate(place, torch::kBFloat16); }});
}
