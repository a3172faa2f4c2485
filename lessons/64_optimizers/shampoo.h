// installs as <tenfold/shampoo.h>
#pragma once
// Shampoo for LibTorch: a hidden matrix's momentum between inverse fourth roots of what its gradients covary by, over
// rows and over columns. Where Muon makes each update orthogonal by itself, Shampoo does so on average.
// An update is as long as an orthogonal matrix of its shape, so that rates are about Muon's.
//
//   const MuonSplit split = split_for_muon(*model, {"head"});
//   Shampoo hidden(split.hidden, ShampooOptions(0.02).weight_decay(0.01));
//
// Sources: V. Gupta et al., Shampoo: Preconditioned Stochastic Tensor Optimization, 2018 (arXiv:1802.09568); the roots
// by matmuls alone: R. Anil et al., Scalable Second Order Optimization for Deep Learning, 2020 (arXiv:2002.09018),
// after C.-H. Guo and N. Higham, A Schur-Newton Method for the Matrix p-th Root and its Inverse, 2006.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "parameter_wise.h"

namespace tenfold {

struct ShampooOptions : torch::optim::OptimizerCloneableOptions<ShampooOptions> {
  using Betas = std::tuple<double, double>;

  ShampooOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT(google-explicit-constructor): as LibTorch's
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = { 0.95, 0.95 };  ///< of the momentum, and of the two covariances
  TORCH_ARG(double, weight_decay) = 0;       ///< taken from the parameter itself
  TORCH_ARG(int64_t, every) = 10;            ///< updates from which on the roots are computed again
  TORCH_ARG(double, ridge) = 1e-6;           ///< of a covariance's norm, added to its diagonal

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, every);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, ridge);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(every);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(ridge);
  }
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

/// Of a matrix (R, C): 4 R C bytes, and 8 R R + 8 C C.
struct ShampooParamState : torch::optim::OptimizerCloneableParamState<ShampooParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, momentum);    // (R, C)
  TORCH_ARG(torch::Tensor, of_rows);     // (R, R): mean of G G'
  TORCH_ARG(torch::Tensor, of_columns);  // (C, C): mean of G' G
  TORCH_ARG(torch::Tensor, left);        // (R, R): its inverse fourth root
  TORCH_ARG(torch::Tensor, right);       // (C, C)

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, step);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, momentum);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, of_rows);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, of_columns);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, left);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, right);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(of_rows);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(of_columns);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(left);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(right);
  }
};

/// (A + ridge |A| I)^(-1/4) of a symmetric matrix (N, N) without negative eigenvalues, by Newton's method for M = A H^4
/// and H together: matmuls alone. An eigenvalue far below the norm grows 2.4 times a round, from the ridge to 1 in
/// log(1 / ridge) / log(2.44) of them; then few more double the digits. Of a matrix of zeros, and of one so rounded
/// that the iteration does not end (an eigenvalue below -ridge |A|): the identity.
inline torch::Tensor inverse_fourth_root(const torch::Tensor& matrix, double ridge) {
  const auto rounds = static_cast<int64_t>(std::ceil(std::log(1 / ridge) / std::log(2.44))) + 6;
  const torch::Tensor one = torch::eye(matrix.size(0), matrix.options());
  const torch::Tensor norm = matrix.norm(), scale = torch::where(norm > 0, norm, torch::ones_like(norm));
  torch::Tensor m = matrix / scale + ridge * one, h = one;
  for (int64_t round = 0; round < rounds; ++round) {
    const torch::Tensor t = 1.25 * one - 0.25 * m, squared = t.mm(t);
    m = squared.mm(squared).mm(m);
    h = h.mm(t);
  }
  return torch::where((norm > 0).logical_and(h.isfinite().all()), h / scale.pow(0.25), one);
}

/// Of hidden matrices only, as Muon.
class Shampoo : public ParameterWise<Shampoo, ShampooOptions, ShampooParamState> {
 public:
  /// Throws c10::ValueError for a parameter that is no matrix or has 16 bits, and for options out of their range.
  explicit Shampoo(const Groups& groups, const ShampooOptions& defaults = {}) : ParameterWise(groups, defaults) {
    for (auto& group : param_groups_) {
      check(options_of(group));
      for (const torch::Tensor& parameter : group.params()) {
        TORCH_CHECK_VALUE(parameter.dim() == 2, "Shampoo: a parameter of shape ", parameter.sizes(),
                          " is no matrix; give it to AdamW, as split_for_muon() does");
        TORCH_CHECK_VALUE(parameter.scalar_type() == torch::kFloat || parameter.scalar_type() == torch::kDouble,
                          "Shampoo: a parameter in ", parameter.scalar_type(), "; its roots need 32 bits or more");
      }
    }
  }
  explicit Shampoo(std::vector<torch::Tensor> parameters, const ShampooOptions& defaults = {})
      : Shampoo(one_group(std::move(parameters)), defaults) {}

 private:
  friend ParameterWise;

  void update(torch::Tensor& parameter, const ShampooOptions& options) {
    const auto [beta1, beta2] = options.betas();
    const torch::Tensor& gradient = parameter.grad();  // (R, C)
    // TF32's rounding makes eigenvalues near zero negative, and Newton's method then runs to infinity.
    const at::NoTF32Guard in_32_bits;
    ShampooParamState& state = state_of(parameter, [&](ShampooParamState& first) {
      const int64_t rows = gradient.size(0), columns = gradient.size(1);
      first.momentum(torch::zeros_like(gradient));
      first.of_rows(torch::zeros({rows, rows}, gradient.options()));
      first.of_columns(torch::zeros({columns, columns}, gradient.options()));
    });
    state.step(state.step() + 1);
    state.of_rows().lerp_(gradient.mm(gradient.t()), 1 - beta2);
    state.of_columns().lerp_(gradient.t().mm(gradient), 1 - beta2);
    if ((state.step() - 1) % options.every() == 0) {
      const double seen = 1 - std::pow(beta2, static_cast<double>(state.step()));  // the means begin at 0
      state.left(inverse_fourth_root(state.of_rows() / seen, options.ridge()));
      state.right(inverse_fourth_root(state.of_columns() / seen, options.ridge()));
    }
    state.momentum().lerp_(gradient, 1 - beta1);
    const torch::Tensor ahead = gradient.lerp(state.momentum(), beta1);  // Nesterov's, as Muon's
    const double factor = std::sqrt(std::max(1.0, static_cast<double>(parameter.size(0)) / parameter.size(1)));
    torch::Tensor direction = state.left().mm(ahead).mm(state.right());
    // Grafted: the roots are of past updates, and a gradient in a direction that was rare then would go too far.
    const double length = std::sqrt(static_cast<double>(std::min(parameter.size(0), parameter.size(1))));
    direction.mul_(length / direction.norm().clamp_min(1e-30));
    parameter.mul_(1 - options.lr() * options.weight_decay());
    parameter.add_(direction, -options.lr() * factor);
  }

  static void check(const ShampooOptions& options) {
    const auto [beta1, beta2] = options.betas();
    TORCH_CHECK_VALUE(options.lr() >= 0 && options.weight_decay() >= 0,
                      "Shampoo: rate and weight decay must be 0 or more, got ", options.lr(), " and ",
                      options.weight_decay());
    TORCH_CHECK_VALUE(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "Shampoo: betas must be in [0, 1), got ",
                      beta1, " and ", beta2);
    TORCH_CHECK_VALUE(options.every() >= 1, "Shampoo: every must be 1 or more, got ", options.every());
    TORCH_CHECK_VALUE(options.ridge() > 0 && options.ridge() < 1,
                      "Shampoo: the ridge must be above 0 and below 1, got ", options.ridge());
  }
};

}  // namespace tenfold
