#pragma once
// Two losses on real images that search and AdamW minimise: one of 20 parameters, one of nearly 20,000.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/models/fashion_mnist.h"
#include "derivative_free.h"

namespace tenfold::inline lesson_64 {

/// A model of so few layers that a point, (N) doubles, is all of it.
struct SearchProblem {
  torch::Tensor features, labels;  ///< (M, F) float and (M)
  int64_t hidden = 0;              ///< 0: one linear score of two classes
  torch::Tensor start;             ///< (N)
  double sigma = 0;                ///< how far to look from it
  double adamw_rate = 0;

  /// (M, classes); differentiable.
  torch::Tensor logits(const torch::Tensor& point) const {
    const int64_t inputs = features.size(1);
    if (hidden == 0) {
      const torch::Tensor score = torch::addmv(point.narrow(0, inputs, 1), features, point.narrow(0, 0, inputs));
      return torch::stack({torch::zeros_like(score), score}, 1);
    }
    int64_t at = 0;
    const auto next = [&](torch::IntArrayRef shape) {
      const int64_t begin = at;
      at += c10::multiply_integers(shape);
      return point.narrow(0, begin, at - begin).view(shape);
    };
    const torch::Tensor weight = next({inputs, hidden}), bias = next({hidden});
    const torch::Tensor inner = torch::relu(torch::addmm(bias, features, weight));
    const torch::Tensor head = next({hidden, 10}), head_bias = next({10});
    return torch::addmm(head_bias, inner, head);
  }
  /// Mean cross-entropy, a differentiable scalar.
  torch::Tensor loss(const torch::Tensor& point) const { return torch::cross_entropy_loss(logits(point), labels); }
  /// Share of images that are called wrong, the 0/1 loss: of no gradient.
  double error(const torch::Tensor& point) const {
    return (logits(point).argmax(1) != labels).to(torch::kDouble).mean().item<double>();
  }
  /// A search's point as the model computes with it.
  torch::Tensor in_32_bits(const torch::Tensor& point) const { return point.to(features.options()); }
};

/// Normal values: the optimum is in no particular place of them.
inline torch::Tensor drawn_start(torch::IntArrayRef shape, double deviation) {
  return deviation * normal_values(shape, at::detail::createCPUGenerator(/*seed=*/64));
}

/// Pullovers against coats, by the mean of 19 bands of rows: 20 parameters.
inline SearchProblem twenty_parameters(torch::Device device) {
  constexpr int64_t kImages = 512, kPullover = 2, kCoat = 4;
  const ImageSet set = fashion_mnist(/*train=*/true);
  const torch::Tensor two = (set.labels == kPullover).logical_or(set.labels == kCoat).nonzero().flatten();
  const torch::Tensor picked = two.narrow(0, 0, kImages);
  const torch::Tensor bands =
      torch::adaptive_avg_pool2d(normalise_images(set.images.index_select(0, picked)), {19, 1}).flatten(1);
  return {.features = bands.to(device),
          .labels = (set.labels.index_select(0, picked) == kCoat).to(torch::kLong).to(device),
          .start = drawn_start({20}, 1),
          .sigma = 0.5,
          .adamw_rate = 0.1};
}

/// Ten classes by 7 x 7 means and an inner layer of 333: 19,990 parameters.
inline SearchProblem many_parameters(torch::Device device) {
  constexpr int64_t kImages = 64, kInputs = 49, kHidden = 333, kClasses = 10;
  const ImageSet set = fashion_mnist(/*train=*/true);
  const torch::Tensor pooled = torch::avg_pool2d(normalise_images(set.images.narrow(0, 0, kImages)), {4, 4}).flatten(1);
  const torch::Tensor start = torch::cat({drawn_start({(kInputs + 1) * kHidden}, 1 / std::sqrt(kInputs)),
                                          drawn_start({(kHidden + 1) * kClasses}, 1 / std::sqrt(kHidden))});
  return {.features = pooled.to(device),
          .labels = set.labels.narrow(0, 0, kImages).to(device),
          .hidden = kHidden,
          .start = start,
          .sigma = 0.05,
          .adamw_rate = 0.01};
}

/// An update of AdamW counts as three evaluations: backward is twice the arithmetic of forward.
inline constexpr int64_t kEvaluationsOfAnUpdate = 3;

/// AdamW within the same limits. The best point that it had.
inline Found adamw_search(const SearchProblem& problem, const SearchLimit& limit) {
  torch::Tensor point = problem.in_32_bits(problem.start).clone().requires_grad_();
  torch::optim::AdamW optimizer({point}, torch::optim::AdamWOptions(problem.adamw_rate).weight_decay(0));
  const Stopwatch watch;
  Found found;
  while (found.evaluations + kEvaluationsOfAnUpdate <= limit.evaluations && watch.read().processor < limit.seconds) {
    optimizer.zero_grad();
    const torch::Tensor loss = problem.loss(point);
    loss.backward();
    const auto value = loss.item<double>();
    if (value < found.loss) {
      found.loss = value;
      found.point = point.detach().clone();
    }
    optimizer.step();
    found.evaluations += kEvaluationsOfAnUpdate;
  }
  return found;
}

/// Rastrigin's function of N parameters, with its optimum of 0 at this place in each: a wave on a bowl.
inline Objective rastrigin(double optimum) {
  return [optimum](const torch::Tensor& point) {
    const torch::Tensor x = point - optimum;
    constexpr double kTurn = 6.283185307179586;
    return (x.square() - 10 * torch::cos(kTurn * x) + 10).sum().item<double>();
  };
}

}  // namespace tenfold::inline lesson_64
