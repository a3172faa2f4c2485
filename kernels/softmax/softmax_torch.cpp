#include "softmax_torch.h"

#include "softmax.h"

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::softmax";

struct Softmax : torch::autograd::Function<Softmax> {
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const Tensor out = softmax_forward(input);
    context->save_for_backward({out});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    return {softmax_backward(gradients[0], context->get_saved_variables()[0])};
  }
};

}  // namespace

Tensor softmax_forward(const Tensor& input) {
  check_input(kName, input);
  const Tensor x = input.contiguous(), out = torch::empty_like(x);
  if (x.is_meta()) return out;
  const auto [rows, columns] = rows_of(x);
  launch_where_they_are({{"in", x}, {"out", out}}, [&, rows = rows, columns = columns](auto stream, auto value) {
    using T = decltype(value);
    kernels::softmax(stream, data_of<T>(out), data_of<T>(x), rows, columns);
  });
  return out;
}

Tensor softmax_backward(const Tensor& gradient, const Tensor& result) {
  check_input(kName, result);
  check_gradient(kName, gradient, result);
  const Tensor out = result.contiguous(), grad = gradient.contiguous(), grad_x = torch::empty_like(out);
  if (out.is_meta()) return grad_x;
  const auto [rows, columns] = rows_of(out);
  launch_where_they_are({{"out", out}, {"grad_out", grad}, {"grad_in", grad_x}}, [&, rows = rows, columns = columns](
                                                                                     auto stream, auto value) {
    using T = decltype(value);
    kernels::softmax_backward(stream, data_of<T>(grad_x), data_of<T>(grad), data_of<T>(out), rows, columns);
  });
  return grad_x;
}

Tensor softmax(const Tensor& input) {
  check_input(kName, input);
  return Softmax::apply(input);
}

Tensor reference::softmax(const Tensor& input) { return at::softmax(input, -1); }

}  // namespace tenfold::fused
