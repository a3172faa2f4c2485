#include "bias_gelu_torch.h"

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::bias_gelu";

struct BiasGelu : torch::autograd::Function<BiasGelu> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& bias, int64_t form) {
    const Tensor x = input.contiguous(), b = bias.contiguous();
    context->save_for_backward({x, b});
    context->saved_data["form"] = form;
    return bias_gelu_forward(x, b, static_cast<Gelu>(form));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const variable_list saved = context->get_saved_variables();
    const auto form = static_cast<Gelu>(context->saved_data["form"].toInt());
    const auto [grad_x, grad_b] = bias_gelu_backward(gradients[0], saved[0], saved[1], form);
    return {grad_x, grad_b, Tensor()};
  }
};

void check(const Tensor& input, const Tensor& bias) {
  check_input(kName, input);
  check_vector(kName, "bias", bias, input);
}

}  // namespace

Tensor bias_gelu_forward(const Tensor& input, const Tensor& bias, Gelu form) {
  check(input, bias);
  const Tensor x = input.contiguous(), b = bias.contiguous(), out = torch::empty_like(x);
  if (x.is_meta()) return out;
  const auto [rows, columns] = rows_of(x);
  launch_where_they_are(
      {{"in", x}, {"bias", b}, {"out", out}}, [&, rows = rows, columns = columns](auto stream, auto value) {
        using T = decltype(value);
        kernels::bias_gelu(stream, data_of<T>(out), data_of<T>(x), data_of<T>(b), rows, columns, form);
      });
  return out;
}

std::tuple<Tensor, Tensor> bias_gelu_backward(const Tensor& gradient, const Tensor& input, const Tensor& bias,
                                              Gelu form) {
  check(input, bias);
  check_gradient(kName, gradient, input);
  const Tensor x = input.contiguous(), b = bias.contiguous(), grad = gradient.contiguous();
  const Tensor grad_x = torch::empty_like(x), grad_b = torch::empty_like(b);
  if (x.is_meta()) return {grad_x, grad_b};
  const auto [rows, columns] = rows_of(x);
  const Tensor workspace =
      torch::empty({kernels::bias_gelu_workspace_bytes(rows, columns) / 4}, x.options().dtype(torch::kFloat));
  launch_where_they_are({{"in", x},
                         {"bias", b},
                         {"grad_out", grad},
                         {"grad_in", grad_x},
                         {"grad_bias", grad_b},
                         {"workspace", workspace}},
                        [&, rows = rows, columns = columns](auto stream, auto value) {
                          using T = decltype(value);
                          kernels::bias_gelu_backward(stream, data_of<T>(grad_x), data_of<T>(grad_b),
                                                      data_of<float>(workspace), data_of<T>(grad), data_of<T>(x),
                                                      data_of<T>(b), rows, columns, form);
                        });
  return {grad_x, grad_b};
}

Tensor bias_gelu(const Tensor& input, const Tensor& bias, Gelu form) {
  check(input, bias);
  return BiasGelu::apply(input, bias, static_cast<int64_t>(form));
}

Tensor reference::bias_gelu(const Tensor& input, const Tensor& bias, Gelu form) {
  return at::gelu(input + bias, form == Gelu::exact ? "none" : "tanh");
}

}  // namespace tenfold::fused
