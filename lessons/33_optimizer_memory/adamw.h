#pragma once
// AdamW, plainly: two running averages of 32 bits for each parameter. The other headers keep the same averages in fewer
// bits and call the same formula.

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace tenfold::inline lesson_33 {

struct AdamWSettings {
  double learning_rate = 1e-3;
  double weight_decay = 1e-2;  ///< taken from the parameter itself; 0: AdamW is Adam
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

/// The update number `step`, from 1 on, of some parameters. Brings the averages of the gradient and of its square up to
/// date in place. All have one shape and 32 bits. Allocates one temporary of that shape.
/// Source: Loshchilov, Hutter, Decoupled Weight Decay Regularization, 2019.
inline void adamw_update(torch::Tensor parameter, const torch::Tensor& gradient, torch::Tensor average,
                         torch::Tensor square, int64_t step, const AdamWSettings& s) {
  const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(s.beta2, static_cast<double>(step));
  average.mul_(s.beta1).add_(gradient, 1 - s.beta1);
  square.mul_(s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
  parameter.mul_(1 - s.learning_rate * s.weight_decay);
  const torch::Tensor denominator = square.sqrt().div_(std::sqrt(correction2)).add_(s.epsilon);
  parameter.addcdiv_(average, denominator, -s.learning_rate / correction1);
}

/// Eight bytes of state for each parameter.
class AdamW {
 public:
  AdamW(std::vector<torch::Tensor> parameters, const AdamWSettings& settings)
      : parameters_(std::move(parameters)), settings_(settings) {
    for (const torch::Tensor& parameter : parameters_) {
      averages_.push_back(torch::zeros_like(parameter));
      squares_.push_back(torch::zeros_like(parameter));
    }
  }

  /// Updates every parameter from its gradient, which must be there.
  void step() {
    const torch::NoGradGuard no_grad;
    ++step_;
    for (size_t i = 0; i < parameters_.size(); ++i)
      adamw_update(parameters_[i], parameters_[i].grad(), averages_[i], squares_[i], step_, settings_);
  }

  const std::vector<torch::Tensor>& squares() const { return squares_; }

 private:
  std::vector<torch::Tensor> parameters_, averages_, squares_;
  AdamWSettings settings_;
  int64_t step_ = 0;
};

}  // namespace tenfold::inline lesson_33
