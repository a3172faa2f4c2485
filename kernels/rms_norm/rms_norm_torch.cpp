#include "rms_norm_torch.h"

#include "rms_norm.h"

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::rms_norm";

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, double epsilon) {
    const auto [rows, columns] = shape_of(kName, input);
    const Tensor x = input.contiguous(), w = weight.contiguous(), out = torch::empty_like(x);
    const Tensor rstd = torch::empty({rows}, x.options().dtype(torch::kFloat));
    launch_where_they_are({{"in", x}, {"weight", w}, {"out", out}, {"rstd", rstd}},
                          [&, rows = rows, columns = columns](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::rms_norm(stream, data_of<T>(out), data_of<float>(rstd), data_of<T>(x),
                                              data_of<T>(w), rows, columns, static_cast<float>(epsilon));
                          });
    context->save_for_backward({x, w, rstd});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1], &rstd = saved[2];
    const Tensor grad = gradients[0].contiguous(), grad_x = torch::empty_like(x), grad_w = torch::empty_like(w);
    const auto [rows, columns] = shape_of(kName, x);
    const Tensor workspace = torch::empty({kernels::rms_norm_workspace_bytes(rows, columns) / 4}, rstd.options());
    launch_where_they_are({{"in", x},
                           {"weight", w},
                           {"rstd", rstd},
                           {"grad_out", grad},
                           {"grad_in", grad_x},
                           {"grad_weight", grad_w},
                           {"workspace", workspace}},
                          [&, rows = rows, columns = columns](auto stream, auto value) {
                            using T = decltype(value);
                            kernels::rms_norm_backward(stream, data_of<T>(grad_x), data_of<T>(grad_w),
                                                       data_of<float>(workspace), data_of<T>(grad), data_of<T>(x),
                                                       data_of<float>(rstd), data_of<T>(w), rows, columns);
                          });
    return {grad_x, grad_w, Tensor()};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& input, const Tensor& weight, double epsilon) {
  shape_of(kName, input);
  check_vector(kName, "weight", weight, input);
  return RmsNorm::apply(input, weight, epsilon);
}

Tensor reference::rms_norm(const Tensor& input, const Tensor& weight, double epsilon) {
  return at::rms_norm(input, {input.size(-1)}, weight, epsilon);
}

}  // namespace tenfold::fused
