// Bias and GELU: our rungs beside ATen's two operators, forward and backward.
#include "ladder.h"

#include "kernels/bias_gelu/bias_gelu_case.h"
#include "kernels/bias_gelu/bias_gelu_torch.h"

namespace {
using namespace tenfold::bench;

Ladder forward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::bias_gelu_forward();
  const simt::Shape shape = place.pick(pass, {{"rows", 5}, {"columns", 123}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}, type), bias = place.normal({columns}, type),
               out = torch::empty_like(in);
  Ladder ladder{
      .name = ladder_name("bias + GELU", type, {rows, columns}),
      .bytes = least_bytes_of(pass, shape, type),
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

Ladder backward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::bias_gelu_backward_pass();
  const simt::Shape shape = place.pick(pass, {{"rows", 5}, {"columns", 123}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}, type), bias = place.normal({columns}, type),
               grad = place.normal({rows, columns}, type);
  const Tensor grad_in = torch::empty_like(in), grad_bias = torch::empty_like(bias);
  const Tensor workspace = place.normal({kernels::bias_gelu_workspace_bytes(rows, columns) / 4});
  const std::vector<Tensor> wide{leaf(in, torch::kDouble), leaf(bias, torch::kDouble)},
      own{leaf(in, type), leaf(bias, type)};
  const Tensor of_aten = reference::bias_gelu(own[0], own[1], kernels::Gelu::tanh);
  return {
      .name = ladder_name("bias + GELU backward", type, {rows, columns}),
      .bytes = least_bytes_of(pass, shape, type),
      .expected = gradients(reference::bias_gelu(wide[0], wide[1], kernels::Gelu::tanh), wide, grad.to(torch::kDouble)),
      .tolerance = type == torch::kFloat ? 1e-4 : 3e-2,
      .contestants = {{"ATen", [=] { return gradients(of_aten, own, grad); }},
                      {"ours", [=] {
                         launch_where_they_are({{"grad_in", grad_in},
                                                {"grad_bias", grad_bias},
                                                {"workspace", workspace},
                                                {"grad_out", grad},
                                                {"in", in},
                                                {"bias", bias}},
                                               [&](auto stream, auto value) {
                                                 using T = decltype(value);
                                                 kernels::bias_gelu_backward(
                                                     stream, data_of<T>(grad_in), data_of<T>(grad_bias),
                                                     data_of<float>(workspace), data_of<T>(grad), data_of<T>(in),
                                                     data_of<T>(bias), rows, columns, kernels::Gelu::tanh);
                                               });
                         return std::vector{grad_in, grad_bias};
                       }}}};
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return forward(place, torch::kFloat); },
              [](const Place& place) { return forward(place, torch::kBFloat16); },
              [](const Place& place) { return backward(place, torch::kFloat); },
              [](const Place& place) { return backward(place, torch::kBFloat16); }});
}
