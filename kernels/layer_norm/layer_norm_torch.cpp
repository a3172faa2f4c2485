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
    const auto [rows, columns] = shape_of(kName, input);
    const Tensor x = input.contiguous(), w = weight.contiguous(), b = bias.contiguous();
    const Tensor out = torch::empty_like(x);
    const Tensor mean = torch::empty({rows}, x.options().dtype(torch::kFloat)), rstd = torch::empty_like(mean);
    launch_where_they_are({{"in", x}, {"weight", w}, {"bias", b}, {"out", out}, {"mean", mean}, {"rstd", rstd}},
                          [&, rows = rows, columns = columns](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::layer_norm(stream, data_of<T>(out), data_of<float>(mean), data_of<float>(rstd),
                                                data_of<T>(x), data_of<T>(w), data_of<T>(b), rows, columns,
                                                static_cast<float>(epsilon));
                          });
    context->save_for_backward({x, w, mean, rstd});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1], &mean = saved[2], &rstd = saved[3];
    const Tensor grad = gradients[0].contiguous();
    const auto [rows, columns] = shape_of(kName, x);
    const Tensor grad_x = torch::empty_like(x), grad_w = torch::empty_like(w), grad_b = torch::empty_like(w);
    const Tensor workspace = torch::empty({kernels::layer_norm_workspace_bytes(rows, columns) / 4}, mean.options());
    launch_where_they_are({{"in", x},
                           {"weight", w},
                           {"mean", mean},
                           {"rstd", rstd},
                           {"grad_out", grad},
                           {"grad_in", grad_x},
                           {"grad_weight", grad_w},
                           {"grad_bias", grad_b},
                           {"workspace", workspace}},
                          [&, rows = rows, columns = columns](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::layer_norm_backward(stream, data_of<T>(grad_x), data_of<T>(grad_w),
                                                         data_of<T>(grad_b), data_of<float>(workspace),
                                                         data_of<T>(grad), data_of<T>(x), data_of<float>(mean),
                                                         data_of<float>(rstd), data_of<T>(w), rows, columns);
                          });
    return {grad_x, grad_w, grad_b, Tensor()};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double epsilon) {
  shape_of(kName, input);
  check_vector(kName, "weight", weight, input);
  check_vector(kName, "bias", bias, input);
  return LayerNorm::apply(input, weight, bias, epsilon);
}

Tensor reference::layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, double epsilon) {
  return at::layer_norm(input, {input.size(-1)}, weight, bias, epsilon);
}

}  // namespace tenfold::fused
