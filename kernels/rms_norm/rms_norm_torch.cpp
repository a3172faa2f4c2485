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
    const Tensor x = input.contiguous(), w = weight.contiguous();
    const auto [out, rstd] = rms_norm_forward(x, w, epsilon);
    context->save_for_backward({x, w, rstd});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const variable_list saved = context->get_saved_variables();
    const auto [grad_x, grad_w] = rms_norm_backward(gradients[0], saved[0], saved[1], saved[2]);
    return {grad_x, grad_w, Tensor()};
  }
};

void check(const Tensor& input, const Tensor& weight) {
  check_input(kName, input);
  check_vector(kName, "weight", weight, input);
}

}  // namespace

std::tuple<Tensor, Tensor> rms_norm_forward(const Tensor& input, const Tensor& weight, double epsilon) {
  check(input, weight);
  const Tensor x = input.contiguous(), w = weight.contiguous(), out = torch::empty_like(x), rstd = float_per_row(x);
  if (x.is_meta()) return {out, rstd};
  const auto [rows, columns] = rows_of(x);
  launch_where_they_are({{"in", x}, {"weight", w}, {"out", out}, {"rstd", rstd}},
                        [&, rows = rows, columns = columns](auto stream, auto value) {
                          using T = decltype(value);
                          kernels::rms_norm(stream, data_of<T>(out), data_of<float>(rstd), data_of<T>(x), data_of<T>(w),
                                            rows, columns, static_cast<float>(epsilon));
                        });
  return {out, rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                             const Tensor& rstd) {
  check(input, weight);
  check_gradient(kName, gradient, input);
  check_sizes(kName, "the rstd", rstd, {input.sym_numel() / input.sym_size(-1)}, at::kFloat, input);
  const Tensor x = input.contiguous(), w = weight.contiguous(), grad = gradient.contiguous();
  const Tensor grad_x = torch::empty_like(x), grad_w = torch::empty_like(w);
  if (x.is_meta()) return {grad_x, grad_w};
  const auto [rows, columns] = rows_of(x);
  const Tensor rstds = rstd.contiguous();
  const Tensor workspace = torch::empty({kernels::rms_norm_workspace_bytes(rows, columns) / 4}, rstds.options());
  launch_where_they_are({{"in", x},
                         {"weight", w},
                         {"rstd", rstds},
                         {"grad_out", grad},
                         {"grad_in", grad_x},
                         {"grad_weight", grad_w},
                         {"workspace", workspace}},
                        [&, rows = rows, columns = columns](auto stream, auto value) {
                          using T = decltype(value);
                          kernels::rms_norm_backward(stream, data_of<T>(grad_x), data_of<T>(grad_w),
                                                     data_of<float>(workspace), data_of<T>(grad), data_of<T>(x),
                                                     data_of<float>(rstds), data_of<T>(w), rows, columns);
                        });
  return {grad_x, grad_w};
}

Tensor rms_norm(const Tensor& input, const Tensor& weight, double epsilon) {
  check(input, weight);
  return RmsNorm::apply(input, weight, epsilon);
}

Tensor reference::rms_norm(const Tensor& input, const Tensor& weight, double epsilon) {
  return at::rms_norm(input, {input.size(-1)}, weight, epsilon);
}

}  // namespace tenfold::fused
