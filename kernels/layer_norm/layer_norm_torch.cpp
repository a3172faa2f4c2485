#include "layer_norm_torch.h"

#include "layer_norm.h"

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::layer_norm";

struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        double epsilon) {
    const Tensor x = input.contiguous(), w = weight.contiguous();
    const auto [out, mean, rstd] = layer_norm_forward(x, w, bias, epsilon);
    context->save_for_backward({x, w, mean, rstd});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const variable_list saved = context->get_saved_variables();
    const auto [grad_x, grad_w, grad_b] = layer_norm_backward(gradients[0], saved[0], saved[1], saved[2], saved[3]);
    return {grad_x, grad_w, grad_b, Tensor()};
  }
};

void check(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  check_input(kName, input);
  check_vector(kName, "weight", weight, input);
  check_vector(kName, "bias", bias, input);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> layer_norm_forward(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                      double epsilon) {
  check(input, weight, bias);
  const Tensor x = input.contiguous(), w = weight.contiguous(), b = bias.contiguous();
  const Tensor out = torch::empty_like(x), mean = float_per_row(x), rstd = torch::empty_like(mean);
  if (x.is_meta()) return {out, mean, rstd};
  const auto [rows, columns] = rows_of(x);
  launch_where_they_are({{"in", x}, {"weight", w}, {"bias", b}, {"out", out}, {"mean", mean}, {"rstd", rstd}},
                        [&, rows = rows, columns = columns](auto stream, auto value) {
                          using T = decltype(value);
                          kernels::layer_norm(stream, data_of<T>(out), data_of<float>(mean), data_of<float>(rstd),
                                              data_of<T>(x), data_of<T>(w), data_of<T>(b), rows, columns,
                                              static_cast<float>(epsilon));
                        });
  return {out, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& gradient, const Tensor& input,
                                                       const Tensor& weight, const Tensor& mean, const Tensor& rstd) {
  check(input, weight, weight);
  check_gradient(kName, gradient, input);
  const c10::SymInt each_row = input.sym_numel() / input.sym_size(-1);
  check_sizes(kName, "the mean", mean, {each_row}, at::kFloat, input);
  check_sizes(kName, "the rstd", rstd, {each_row}, at::kFloat, input);
  const Tensor x = input.contiguous(), w = weight.contiguous(), grad = gradient.contiguous();
  const Tensor grad_x = torch::empty_like(x), grad_w = torch::empty_like(w), grad_b = torch::empty_like(w);
  if (x.is_meta()) return {grad_x, grad_w, grad_b};
  const auto [rows, columns] = rows_of(x);
  const Tensor means = mean.contiguous(), rstds = rstd.contiguous();
  const Tensor workspace = torch::empty({kernels::layer_norm_workspace_bytes(rows, columns) / 4}, means.options());
  launch_where_they_are({{"in", x},
                         {"weight", w},
                         {"mean", means},
                         {"rstd", rstds},
                         {"grad_out", grad},
                         {"grad_in", grad_x},
                         {"grad_weight", grad_w},
                         {"grad_bias", grad_b},
                         {"workspace", workspace}},
                        [&, rows = rows, columns = columns](auto stream, auto value) {
                          using T = decltype(value);
                          kernels::layer_norm_backward(stream, data_of<T>(grad_x), data_of<T>(grad_w),
                                                       data_of<T>(grad_b), data_of<float>(workspace), data_of<T>(grad),
                                                       data_of<T>(x), data_of<float>(means), data_of<float>(rstds),
                                                       data_of<T>(w), rows, columns);
                        });
  return {grad_x, grad_w, grad_b};
}

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double epsilon) {
  check(input, weight, bias);
  return LayerNorm::apply(input, weight, bias, epsilon);
}

Tensor reference::layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double epsilon) {
  return at::layer_norm(input, {input.size(-1)}, weight, bias, epsilon);
}

}  // namespace tenfold::fused
