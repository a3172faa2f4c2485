// Bias and GELU: our rungs beside ATen's two operators.
#include "ladder.h"

#include "kernels/bias_gelu/bias_gelu.h"
#include "kernels/bias_gelu/bias_gelu_torch.h"

namespace {
using namespace tenfold::bench;

Ladder forward(const Place& place, torch::ScalarType type) {
  const int64_t rows = place.pick(8192, 5), columns = place.pick(8192, 123);
  const Tensor in = place.normal({rows, columns}, type), bias = place.normal({columns}, type),
               out = torch::empty_like(in);
  Ladder ladder{
      .name = ladder_name("bias + GELU", type, {rows, columns}),
      .bytes = 2.0 * static_cast<double>(in.nbytes()),
      .expected = {reference::bias_gelu(in.to(torch::kDouble), bias.to(torch::kDouble), kernels::Gelu::tanh)},
      .tolerance = type == torch::kFloat ? 1e-5 : 2e-2,
      .contestants = {{"ATen", [=] { return std::vector{reference::bias_gelu(in, bias, kernels::Gelu::tanh)}; }}}};
  add_rungs(ladder, kernels::kBiasGeluRungs, [=](int rung) {
    launch_where_they_are({{"out", out}, {"in", in}, {"bias", bias}}, [&](auto stream, auto value) {
      using T = decltype(value);
      kernels::bias_gelu(stream, data_of<T>(out), data_of<T>(in), data_of<T>(bias), rows, columns, kernels::Gelu::tanh,
                         rung);
    });
    return std::vector{out};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return forward(place, torch::kFloat); },
              [](const Place& place) { return forward(place, torch::kBFloat16); }});
}
