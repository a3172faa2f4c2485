// LayerNorm: our rungs beside ATen's kernels, forward and backward.
#include "ladder.h"

#include "kernels/layer_norm/layer_norm_case.h"
#include "kernels/layer_norm/layer_norm_torch.h"

namespace {
using namespace tenfold::bench;

constexpr double kEpsilon = 1e-5;

Ladder forward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::layer_norm_forward();
  const simt::Shape shape = place.pick(pass, {{"rows", 5}, {"columns", 123}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}, type), weight = place.normal({columns}, type),
               bias = place.normal({columns}, type);
  const Tensor out = torch::empty_like(in), mean = place.normal({rows}), rstd = place.normal({rows});
  const auto wide = [](const Tensor& t) { return t.to(torch::kDouble); };
  Ladder ladder{
      .name = ladder_name("LayerNorm", type, {rows, columns}),
      .bytes = least_bytes_of(pass, shape, type),
      .expected = {reference::layer_norm(wide(in), wide(weight), wide(bias), kEpsilon)},
      .tolerance = type == torch::kFloat ? 1e-5 : 2e-2,
      .contestants = {{"ATen", [=] { return std::vector{reference::layer_norm(in, weight, bias, kEpsilon)}; }}}};
  add_rungs(ladder, kernels::kLayerNormRungs, [=](int rung) {
    launch_where_they_are(
        {{"out", out}, {"mean", mean}, {"rstd", rstd}, {"in", in}, {"weight", weight}, {"bias", bias}},
        [&](auto stream, auto value) {
          using T = decltype(value);
          kernels::layer_norm(stream, data_of<T>(out), data_of<float>(mean), data_of<float>(rstd), data_of<T>(in),
                              data_of<T>(weight), data_of<T>(bias), rows, columns, static_cast<float>(kEpsilon), rung);
        });
    return std::vector{out};
  });
  return ladder;
}

Ladder backward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::layer_norm_backward_pass();
  const simt::Shape shape = place.pick(pass, {{"rows", 5}, {"columns", 123}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}, type), weight = place.normal({columns}, type),
               bias = place.normal({columns}, type);
  const Tensor grad = place.normal({rows, columns}, type);
  const std::vector<Tensor> wide{leaf(in, torch::kDouble), leaf(weight, torch::kDouble), leaf(bias, torch::kDouble)};
  const auto [y, mean, rstd] = at::native_layer_norm(in, {columns}, weight, bias, kEpsilon);
  const Tensor mean_of = mean.reshape({rows}).to(torch::kFloat), rstd_of = rstd.reshape({rows}).to(torch::kFloat);
  const Tensor grad_in = torch::empty_like(in), grad_weight = torch::empty_like(weight),
               grad_bias = torch::empty_like(bias);
  const Tensor workspace = place.normal({kernels::layer_norm_workspace_bytes(rows, columns) / 4});
  Ladder ladder{
      .name = ladder_name("LayerNorm backward", type, {rows, columns}),
      .bytes = least_bytes_of(pass, shape, type),
      .expected = gradients(reference::layer_norm(wide[0], wide[1], wide[2], kEpsilon), wide, grad.to(torch::kDouble)),
      .tolerance = type == torch::kFloat ? 1e-4 : 3e-2,
      .contestants = {{"ATen", [=, mean = mean, rstd = rstd] {
                         const auto [dx, dw, db] = at::native_layer_norm_backward(grad, in, {columns}, mean, rstd,
                                                                                  weight, bias, {true, true, true});
                         return std::vector{dx, dw, db};
                       }}}};
  add_rungs(ladder, kernels::kNormBackwardRungs, [=](int rung) {
    launch_where_they_are({{"grad_in", grad_in},
                           {"grad_weight", grad_weight},
                           {"grad_bias", grad_bias},
                           {"workspace", workspace},
                           {"grad_out", grad},
                           {"in", in},
                           {"mean", mean_of},
                           {"rstd", rstd_of},
                           {"weight", weight}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::layer_norm_backward(
                                stream, data_of<T>(grad_in), data_of<T>(grad_weight), data_of<T>(grad_bias),
                                data_of<float>(workspace), data_of<T>(grad), data_of<T>(in), data_of<float>(mean_of),
                                data_of<float>(rstd_of), data_of<T>(weight), rows, columns, rung);
                          });
    return std::vector{grad_in, grad_weight, grad_bias};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return forward(place, torch::kFloat); },
              [](const Place& place) { return forward(place, torch::kBFloat16); },
              [](const Place& place) { return backward(place, torch::kFloat); },
              [](const Place& place) { return backward(place, torch::kBFloat16); }});
}
