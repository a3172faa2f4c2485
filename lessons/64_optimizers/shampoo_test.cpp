// Shampoo against its formula in 64 bits with eigenvectors, and where it is Muon's direction.
#include <gtest/gtest.h>

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

#include "shampoo.h"
#include "state_bytes.h"

namespace tenfold {
namespace {

using torch::Tensor;

/// (A + ridge |A| I)^(-1/4) in 64 bits, by eigenvectors.
Tensor root_by_eigenvectors(const Tensor& matrix, double ridge) {
  const Tensor a = matrix.to(torch::kDouble);
  const auto [values, vectors] = torch::linalg_eigh(a, "L");
  const Tensor shifted = values.clamp_min(0) + ridge * a.norm();
  return (vectors * shifted.pow(-0.25)).mm(vectors.t());
}

double relative(const Tensor& ours, const Tensor& exact) {
  return ((ours.to(torch::kDouble) - exact).norm() / exact.norm()).item<double>();
}

// Of a batch with fewer samples than rows a covariance is singular: the ridge alone keeps the root finite.
TEST(InverseFourthRoot, IsThatOfTheEigenvalues) {
  torch::manual_seed(64);
  for (const int64_t samples : {200, 24, 3}) {
    for (const double size : {1e-6, 1.0, 1e6}) {
      const Tensor x = torch::randn({24, samples});
      const Tensor covariance = size * x.mm(x.t());
      const Tensor exact = root_by_eigenvectors(covariance, 1e-4);
      EXPECT_LE(relative(inverse_fourth_root(covariance, 1e-4), exact), 2e-3) << samples << " samples of size " << size;
    }
  }
  EXPECT_TRUE(torch::equal(inverse_fourth_root(torch::zeros({3, 3}), 1e-6), torch::eye(3)));
}

// As TF32 would leave it: a direction that no gradient has gets an eigenvalue of some 5e-4 of the norm, on either side.
TEST(InverseFourthRoot, IsTheIdentityWhereRoundingMadeAnEigenvalueNegative) {
  const Tensor rounded = torch::diag(torch::tensor({1.0F, 0.5F, -5e-4F}));
  EXPECT_TRUE(torch::equal(inverse_fourth_root(rounded, 1e-6), torch::eye(3)));
}

Tensor gradient_of(int64_t step, int64_t rows, int64_t columns) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step + 1));
  return torch::randn({rows, columns}, generator);
}

TEST(Shampoo, IsItsFormula) {
  constexpr int64_t kRows = 12, kColumns = 8;
  constexpr double kRate = 0.05, kDecay = 0.3, kBeta1 = 0.9, kBeta2 = 0.8, kRidge = 1e-4;
  Tensor parameter = gradient_of(-1, kRows, kColumns).requires_grad_();
  Tensor w = parameter.detach().to(torch::kDouble), momentum = torch::zeros_like(w), left, right;
  Tensor of_rows = torch::zeros({kRows, kRows}, torch::kDouble);
  Tensor of_columns = torch::zeros({kColumns, kColumns}, torch::kDouble);
  Shampoo optimizer({parameter},
                    ShampooOptions(kRate).weight_decay(kDecay).betas({kBeta1, kBeta2}).every(2).ridge(kRidge));
  for (int64_t step = 0; step < 5; ++step) {
    const Tensor gradient = gradient_of(step, kRows, kColumns);
    parameter.mutable_grad() = gradient;
    optimizer.step();

    const Tensor g = gradient.to(torch::kDouble);
    of_rows = kBeta2 * of_rows + (1 - kBeta2) * g.mm(g.t());
    of_columns = kBeta2 * of_columns + (1 - kBeta2) * g.t().mm(g);
    if (step % 2 == 0) {
      const double seen = 1 - std::pow(kBeta2, step + 1);
      left = root_by_eigenvectors(of_rows / seen, kRidge);
      right = root_by_eigenvectors(of_columns / seen, kRidge);
    }
    momentum = kBeta1 * momentum + (1 - kBeta1) * g;
    const Tensor ahead = kBeta1 * momentum + (1 - kBeta1) * g;
    const Tensor direction = left.mm(ahead).mm(right);
    w = w - kRate * kDecay * w - kRate * std::sqrt(1.5) * std::sqrt(8.0) * direction / direction.norm();
  }
  const Tensor start = gradient_of(-1, kRows, kColumns).to(torch::kDouble);
  EXPECT_LE(relative(parameter.detach() - start, w - start), 5e-3);
}

// Without a memory a gradient U S V' comes to U V': what Muon's five steps come near to.
TEST(Shampoo, OfOneGradientIsOrthogonal) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{8, 8}, {6, 10}}) {
    Tensor parameter = torch::zeros({rows, columns}, torch::kFloat).requires_grad_();
    const Tensor gradient = gradient_of(0, rows, columns);
    Shampoo optimizer({parameter}, ShampooOptions(1).betas({0, 0}).every(1).ridge(1e-7));
    parameter.mutable_grad() = gradient;
    optimizer.step();
    const auto [u, s, vh] = torch::linalg_svd(gradient.to(torch::kDouble), /*full_matrices=*/false, c10::nullopt);
    EXPECT_LE(relative(-parameter.detach(), u.mm(vh)), 2e-2) << rows << " x " << columns;
  }
}

TEST(Shampoo, RefusesWhatItCannotTrain) {
  EXPECT_THROW(Shampoo({torch::zeros({8}).requires_grad_()}), c10::ValueError);
  EXPECT_THROW(Shampoo({torch::zeros({8, 3, 3, 3}).requires_grad_()}), c10::ValueError);
  EXPECT_THROW(Shampoo({torch::zeros({2, 2}, torch::kBFloat16).requires_grad_()}), c10::ValueError);
  const std::vector<Tensor> matrix = {torch::zeros({2, 2}).requires_grad_()};
  EXPECT_THROW(Shampoo(matrix, ShampooOptions(-1)), c10::ValueError);
  EXPECT_THROW(Shampoo(matrix, ShampooOptions().betas({1, 0.9})), c10::ValueError);
  EXPECT_THROW(Shampoo(matrix, ShampooOptions().every(0)), c10::ValueError);
  EXPECT_THROW(Shampoo(matrix, ShampooOptions().ridge(0)), c10::ValueError);
}

TEST(Shampoo, SavedAndLoadedItGoesOnToTheBit) {
  const auto trained = [](Shampoo& optimizer, Tensor& parameter, int64_t from) {
    for (int64_t step = from; step < from + 3; ++step) {
      parameter.mutable_grad() = gradient_of(step, 6, 4);
      optimizer.step();
    }
  };
  Tensor parameter = gradient_of(-1, 6, 4).requires_grad_();
  Shampoo optimizer({parameter}, ShampooOptions(0.1));
  trained(optimizer, parameter, 0);
  std::stringstream file;
  torch::save(optimizer, file);
  Tensor other = parameter.detach().clone().requires_grad_();
  Shampoo resumed({other});
  torch::load(resumed, file);
  trained(optimizer, parameter, 3);
  trained(resumed, other, 3);
  EXPECT_TRUE(torch::equal(parameter, other));
}

TEST(Shampoo, KeepsTheBytesOfTheFormula) {
  Tensor parameter = gradient_of(-1, 64, 32).requires_grad_();
  Shampoo optimizer({parameter});
  parameter.mutable_grad() = gradient_of(0, 64, 32);
  optimizer.step();
  const auto& state = static_cast<const ShampooParamState&>(*optimizer.state().begin()->second);
  int64_t bytes = 0;
  for (const Tensor& kept : {state.momentum(), state.of_rows(), state.of_columns(), state.left(), state.right()})
    bytes += static_cast<int64_t>(kept.nbytes());
  const ModelShapes shapes{.all = {{64, 32}}, .hidden = {{64, 32}}};
  EXPECT_EQ(bytes, shampoo_state(shapes));
}

}  // namespace
}  // namespace tenfold
