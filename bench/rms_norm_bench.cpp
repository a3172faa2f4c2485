// RMSNorm: our rungs beside ATen's operator and beside the formula, forward and backward.
#include "ladder.h"

#include "kernels/rms_norm/rms_norm_case.h"
#include "kernels/rms_norm/rms_norm_torch.h"

namespace {
using namespace tenfold::bench;

constexpr double kEpsilon = 1e-5;

Tensor by_formula(const Tensor& in, const Tensor& weight) {
  const Tensor x = in.to(torch::kFloat);
  return (x * torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + kEpsilon) * weight).to(in.scalar_type());
}

Ladder forward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::rms_norm_forward();
  const simt::Shape shape = place.pick(pass, {{"rows", 5}, {"columns", 123}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}, type), weight = place.normal({columns}, type);
  const Tensor out = torch::empty_like(in), rstd = place.normal({rows});
  Ladder ladder{.name = ladder_name("RMSNorm", type, {rows, columns}),
                .bytes = least_bytes_of(pass, shape, type),
                .expected = {reference::rms_norm(in.to(torch::kDouble), weight.to(torch::kDouble), kEpsilon)},
                .tolerance = type == torch::kFloat ? 1e-5 : 2e-2,
                .contestants = {{"ATen", [=] { return std::vector{reference::rms_norm(in, weight, kEpsilon)}; }},
                                {"formula", [=] { return std::vector{by_formula(in, weight)}; }}}};
  add_rungs(ladder, kernels::kRmsNormRungs, [=](int rung) {
    launch_where_they_are({{"out", out}, {"rstd", rstd}, {"in", in}, {"weight", weight}}, [&](auto stream, auto value) {
      using T = decltype(value);
      kernels::rms_norm(stream, data_of<T>(out), data_of<float>(rstd), data_of<T>(in), data_of<T>(weight), rows,
                        columns, static_cast<float>(kEpsilon), rung);
    });
    return std::vector{out};
  });
  return ladder;
}

Ladder backward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::rms_norm_backward_pass();
  const simt::Shape shape = place.pick(pass, {{"rows", 5}, {"columns", 123}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = leaf(place.normal({rows, columns}), type), weight = leaf(place.normal({columns}), type);
  const Tensor grad = place.normal({rows, columns}, type), of_aten = reference::rms_norm(in, weight, kEpsilon);
  const Tensor x = leaf(in, torch::kDouble), w = leaf(weight, torch::kDouble);
  const Tensor rstd = torch::rsqrt(in.detach().to(torch::kFloat).square().mean(-1) + kEpsilon);
  const Tensor grad_in = torch::empty_like(in).detach(), grad_weight = torch::empty_like(weight).detach();
  const Tensor workspace = place.normal({kernels::rms_norm_workspace_bytes(rows, columns) / 4});
  Ladder ladder{.name = ladder_name("RMSNorm backward", type, {rows, columns}),
                .bytes = least_bytes_of(pass, shape, type),
                .expected = gradients(reference::rms_norm(x, w, kEpsilon), {x, w}, grad.to(torch::kDouble)),
                .tolerance = type == torch::kFloat ? 1e-4 : 3e-2,
                .contestants = {{"ATen", [=] { return gradients(of_aten, {in, weight}, grad); }}}};
  add_rungs(ladder, kernels::kNormBackwardRungs, [=](int rung) {
    launch_where_they_are({{"grad_in", grad_in},
                           {"grad_weight", grad_weight},
                           {"workspace", workspace},
                           {"grad_out", grad},
                           {"in", in},
                           {"rstd", rstd},
                           {"weight", weight}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::rms_norm_backward(stream, data_of<T>(grad_in), data_of<T>(grad_weight),
                                                       data_of<float>(workspace), data_of<T>(grad), data_of<T>(in),
                                                       data_of<float>(rstd), data_of<T>(weight), rows, columns, rung);
                          });
    return std::vector{grad_in, grad_weight};
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
