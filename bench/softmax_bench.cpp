// Softmax over rows: our rungs beside ATen's kernel, forward and backward.
#include "ladder.h"

#include "kernels/softmax/softmax_case.h"
#include "kernels/softmax/softmax_torch.h"

namespace {
using namespace tenfold::bench;

Ladder forward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::softmax_forward();
  const simt::Shape shape = place.pick(pass, {{"rows", 3}, {"columns", 1000}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}, type), out = torch::empty_like(in);
  Ladder ladder{.name = ladder_name("softmax", type, {rows, columns}),
                .bytes = least_bytes_of(pass, shape, type),
                .expected = {reference::softmax(in.to(torch::kDouble))},
                .tolerance = type == torch::kFloat ? 1e-5 : 1e-2,
                .contestants = {{"ATen", [=] { return std::vector{reference::softmax(in)}; }}}};
  add_rungs(ladder, kernels::kSoftmaxRungs, [=](int rung) {
    launch_where_they_are({{"out", out}, {"in", in}}, [&](auto stream, auto value) {
      using T = decltype(value);
      kernels::softmax(stream, data_of<T>(out), data_of<T>(in), rows, columns, rung);
    });
    return std::vector{out};
  });
  return ladder;
}

Ladder backward(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::softmax_backward_pass();
  const simt::Shape shape = place.pick(pass, {{"rows", 3}, {"columns", 1000}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}, type), grad = place.normal({rows, columns}, type);
  const Tensor out = reference::softmax(in), grad_in = torch::empty_like(out), wide = leaf(in, torch::kDouble);
  return {.name = ladder_name("softmax backward", type, {rows, columns}),
          .bytes = least_bytes_of(pass, shape, type),
          .expected = gradients(reference::softmax(wide), {wide}, grad.to(torch::kDouble)),
          .tolerance = type == torch::kFloat ? 1e-5 : 2e-2,
          .contestants = {{"ATen", [=] { return std::vector{at::_softmax_backward_data(grad, out, -1, type)}; }},
                          {"ours", [=] {
                             launch_where_they_are({{"out", out}, {"grad_out", grad}, {"grad_in", grad_in}},
                                                   [&](auto stream, auto value) {
                                                     using T = decltype(value);
                                                     kernels::softmax_backward(stream, data_of<T>(grad_in),
                                                                               data_of<T>(grad), data_of<T>(out), rows,
                                                                               columns);
                                                   });
                             return std::vector{grad_in};
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
