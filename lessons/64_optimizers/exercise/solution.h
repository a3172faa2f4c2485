#pragma once
// The kept solution of exercise 64; CI proves that it passes.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

struct Settings {
  double rate = 0.02, momentum = 0.95, weight_decay = 0.1;
};

/// A matrix (R, C) = U S V' as roughly U V', in 32 bits: five times a x + b x^3 + c x^5 of its singular values.
inline torch::Tensor orthogonalised(const torch::Tensor& matrix) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  torch::Tensor x = tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(1e-7);
  for (int step = 0; step < 5; ++step) {
    const torch::Tensor gram = x.mm(x.t());
    x = kA * x + (kB * gram + kC * gram.mm(gram)).mm(x);
  }
  return tall ? x.t() : x;
}

/// One update of a weight (R, C) and its momentum, both in place, with Nesterov's look ahead.
inline void muon_update(torch::Tensor weight, const torch::Tensor& gradient, torch::Tensor momentum,
                        const Settings& s) {
  momentum.mul_(s.momentum).add_(gradient, 1 - s.momentum);
  const torch::Tensor ahead = s.momentum * momentum + (1 - s.momentum) * gradient;
  const double factor =
      std::sqrt(std::max(1.0, static_cast<double>(weight.size(0)) / static_cast<double>(weight.size(1))));
  weight.mul_(1 - s.rate * s.weight_decay);
  weight.sub_(s.rate * factor * orthogonalised(ahead));
}
