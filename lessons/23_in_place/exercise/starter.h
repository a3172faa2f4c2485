#pragma once
// Your answer to exercise 23. Build and check it with: ./tenfold exercise 23
#include <torch/torch.h>

/// A gated residual layer, y = x + (value * gate) W3 with value = leaky_relu(x W1) and gate = sigmoid(x W2), for x of
/// (N, D) and weights of (D, D). The slope of the leaky ReLU is 0.1.
/// Gradients are those of these operators with a new tensor each. No memory that autograd can do without: after the
/// call four tensors of (N, D) are alive besides x, and never more while it runs.
inline torch::Tensor gated_residual(const torch::Tensor& x, const torch::Tensor& w1, const torch::Tensor& w2,
                                    const torch::Tensor& w3) {
  // Hint: which of these operators keep their input for backward(), which their result, and which neither?
  torch::Tensor value = torch::leaky_relu(torch::mm(x, w1), 0.1);
  torch::Tensor gate = torch::sigmoid(torch::mm(x, w2));
  torch::Tensor mixed = value * gate;
  return x + torch::mm(mixed, w3);
}
