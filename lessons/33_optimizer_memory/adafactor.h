#pragma once
// Adafactor: of a matrix's squared gradients only the mean of each row and of each column is kept, and no average of
// the gradient itself. Its state is nearly nothing.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tenfold::inline lesson_33 {

struct AdafactorSettings {
  double rate = 1e-2;           ///< of an update, relative to the parameters' own size; later 1 / sqrt(step) if less
  double decay = -0.8;          ///< the newest gradient has the weight step^decay
  double clip = 1;              ///< of an update's root mean square, before its rate
  double smallest_size = 1e-3;  ///< of a tensor: one of zeros would never move
  double epsilon = std::numeric_limits<float>::epsilon();
};

/// Root mean square of a tensor's values, on its device.
inline torch::Tensor size_of(const torch::Tensor& values) {
  return values.norm() / std::sqrt(static_cast<double>(values.numel()));
}

/// What is kept of one tensor's squared gradients.
struct FactoredSquares {
  explicit FactoredSquares(const torch::Tensor& parameter) {
    std::vector<int64_t> row_shape = parameter.sizes().vec(), column_shape = row_shape;
    const auto options = parameter.options().requires_grad(false);
    if (parameter.dim() < 2) {
      squares = torch::zeros(row_shape, options);
      return;
    }
    row_shape.back() = 1;
    column_shape[column_shape.size() - 2] = 1;
    rows = torch::zeros(row_shape, options);
    columns = torch::zeros(column_shape, options);
  }

  /// Takes the newest gradient in with this weight. The estimate of its squares' average, a new tensor: of a matrix the
  /// product of rows and columns over the mean, which is exact if all rows are alike but for a factor.
  torch::Tensor estimate(const torch::Tensor& gradient, double weight, double epsilon) const {
    if (gradient.dim() < 2) return torch::Tensor(squares).lerp_(gradient * gradient, weight).clone();
    const auto mean_square = [&](int64_t dim) {
      return at::linalg_vector_norm(gradient, 2, {dim}, /*keepdim=*/true)
          .square_()
          .div_(static_cast<double>(gradient.size(dim)));
    };
    torch::Tensor(rows).lerp_(mean_square(-1), weight);
    torch::Tensor(columns).lerp_(mean_square(-2), weight);
    return rows.matmul(columns).div_(rows.mean(-2, /*keepdim=*/true).clamp_min_(epsilon));
  }

  torch::Tensor rows, columns;  // (R, 1), (1, C) of a matrix
  torch::Tensor squares;        // of anything else
};

/// The update number `step`, from 1 on, of one tensor, by this rate, a scalar on its device. Allocates one temporary of
/// the tensor's shape.
inline void adafactor_update(torch::Tensor parameter, const FactoredSquares& state, const torch::Tensor& rate,
                             int64_t step, const AdafactorSettings& s) {
  const torch::Tensor& gradient = parameter.grad();
  torch::Tensor update = state.estimate(gradient, std::pow(static_cast<double>(step), s.decay), s.epsilon);
  update.clamp_min_(s.epsilon * s.epsilon).rsqrt_().mul_(gradient);
  const torch::Tensor too_large = (size_of(update) / s.clip).clamp_min_(1);
  parameter.sub_(update.mul_(rate / too_large));
}

/// The same updates as torch.optim.Adafactor's, without its weight decay. Never waits for the device.
/// Source: Shazeer, Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018.
class Adafactor {
 public:
  Adafactor(std::vector<torch::Tensor> parameters, const AdafactorSettings& settings)
      : parameters_(std::move(parameters)), settings_(settings) {
    for (const torch::Tensor& parameter : parameters_) squares_.emplace_back(parameter);
  }

  void step() {
    const torch::NoGradGuard no_grad;
    ++step_;
    const double rate = std::min(settings_.rate, 1 / std::sqrt(static_cast<double>(step_)));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor of_tensor = size_of(parameters_[i]).clamp_min_(settings_.smallest_size).mul_(rate);
      adafactor_update(parameters_[i], squares_[i], of_tensor, step_, settings_);
    }
  }

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<FactoredSquares> squares_;
  AdafactorSettings settings_;
  int64_t step_ = 0;
};

}  // namespace tenfold::inline lesson_33
