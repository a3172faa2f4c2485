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
    const auto [rows, columns] = shape_of(kName, input);
    const Tensor x = input.contiguous(), out = torch::empty_like(x);
    launch_where_they_are({{"in", x}, {"out", out}}, [&, rows = rows, columns = columns](auto stream, auto value) {
      using T = decltype(value);
      kernels::softmax(stream, data_of<T>(out), data_of<T>(x), rows, columns);
    });
    context->save_for_backward({out});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const Tensor out = context->get_saved_variables()[0], grad = gradients[0].contiguous(),
                 grad_x = torch::empty_like(out);
    const auto [rows, columns] = shape_of(kName, out);
    launch_where_they_are({{"out", out}, {"grad_out", grad}, {"grad_in", grad_x}}, [&, rows = rows, columns = columns](
                                                                                       auto stream, auto value) {
      using T = decltype(value);
      kernels::softmax_backward(stream, data_of<T>(grad_x), data_of<T>(grad), data_of<T>(out), rows, columns);
    });
    return {grad_x};
  }
};

}  // namespace

Tensor softmax(const Tensor& input) {
  shape_of(kName, input);
  return Softmax::apply(input);
}

Tensor reference::softmax(const Tensor& input) { return at::softmax(input, -1); }

}  // namespace tenfold::fused
