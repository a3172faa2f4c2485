#pragma once
// What a Function may do to a parameter: take part in the loss, and leave its gradient undefined.

#include <torch/torch.h>

namespace tenfold::test {

/// Gives its weight no gradient, as a Function may.
struct Forgetful : torch::autograd::Function<Forgetful> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/, const torch::Tensor& x,
                               const torch::Tensor& /*weight*/) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], torch::Tensor()};
  }
};

}  // namespace tenfold::test
