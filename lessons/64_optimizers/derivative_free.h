#pragma once
// Minimising without a derivative: CMA-ES, particle swarm and simulated annealing. All they ask of a loss is its value,
// one point at a time. A fourth method that is often named with them, SLSQP, does not belong here: it needs gradients,
// and where none is given it takes finite differences, which is one more evaluation for each parameter and step; its
// place is a smooth loss of a few parameters under constraints.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "common/measure/clock.h"

namespace tenfold::inline lesson_64 {

/// Of a point, (N) doubles.
using Objective = std::function<double(const torch::Tensor& point)>;

/// A search ends when one of the two is spent.
struct SearchLimit {
  int64_t evaluations = std::numeric_limits<int64_t>::max();
  double seconds = std::numeric_limits<double>::infinity();  ///< of processor time
};

struct SearchOptions {
  double sigma = 0.5;  ///< how far from the start a search begins to look, in each parameter
  SearchLimit limit;
  uint64_t seed = 0;
};

struct Found {
  torch::Tensor point;  ///< (N), the best that was evaluated
  double loss = std::numeric_limits<double>::infinity();
  int64_t evaluations = 0;
};

/// Evaluates within a limit, and keeps the best. NaN is the worst loss there is.
class LimitedObjective {
 public:
  LimitedObjective(const Objective& objective, const SearchLimit& limit) : objective_(objective), limit_(limit) {}

  double operator()(const torch::Tensor& point) {
    double loss = objective_(point);
    if (std::isnan(loss)) loss = std::numeric_limits<double>::infinity();
    ++found_.evaluations;
    if (loss < found_.loss || !found_.point.defined()) {
      found_.loss = loss;
      found_.point = point.clone();
    }
    return loss;
  }

  /// From 0 to 1, where the limit is reached.
  double part_spent() const {
    return std::min(1.0, std::max(static_cast<double>(found_.evaluations) / static_cast<double>(limit_.evaluations),
                                  watch_.read().processor / limit_.seconds));
  }
  bool spent() const { return part_spent() >= 1; }
  const Found& found() const { return found_; }

 private:
  const Objective& objective_;
  SearchLimit limit_;
  Stopwatch watch_;
  Found found_;
};

inline torch::Tensor normal_values(torch::IntArrayRef shape, const at::Generator& generator) {
  return at::randn(shape, generator, torch::TensorOptions(torch::kDouble));
}

/// Up to this many parameters CMA-ES learns all covariances: N^2 numbers, and their eigenvectors in each generation.
/// Above, variances alone (the separable variant), as 20,000 parameters would have covariances of 3.2 GB.
inline constexpr int64_t kMostWithCovariances = 200;

/// What follows from the number of parameters and from nothing else. Source: N. Hansen, The CMA Evolution Strategy: A
/// Tutorial, 2016 (arXiv:1604.00772), table 1; the separable variant's faster learning: R. Ros, N. Hansen, A Simple
/// Modification in CMA-ES Achieving Linear Time and Space Complexity, 2008.
struct CmaRates {
  explicit CmaRates(int64_t parameters) {
    const auto n = static_cast<double>(parameters);
    population = 4 + static_cast<int64_t>(3 * std::log(n));
    double sum = 0, squares = 0;
    for (int64_t i = 1; i <= population / 2; ++i) {
      const double weight = std::log((static_cast<double>(population) + 1) / 2) - std::log(static_cast<double>(i));
      weights.push_back(weight);
      sum += weight;
      squares += weight * weight;
    }
    for (double& weight : weights) weight /= sum;
    selected = sum * sum / squares;
    of_sigma = (selected + 2) / (n + selected + 5);
    damping = 1 + 2 * std::max(0.0, std::sqrt((selected - 1) / (n + 1)) - 1) + of_sigma;
    of_path = (4 + selected / n) / (n + 4 + 2 * selected / n);
    rank_one = 2 / ((n + 1.3) * (n + 1.3) + selected);
    rank_mu = std::min(1 - rank_one, 2 * (selected - 2 + 1 / selected) / ((n + 2) * (n + 2) + selected));
    if (parameters > kMostWithCovariances) {
      rank_one *= (n + 2) / 3;
      rank_mu = std::min(1 - rank_one, rank_mu * (n + 2) / 3);
    }
    length = std::sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
  }

  int64_t population = 0;
  std::vector<double> weights;  ///< of the better half, the best first
  double selected = 0;          ///< as many points of equal weight would count as much
  double of_sigma = 0, damping = 0, of_path = 0, rank_one = 0, rank_mu = 0;
  double length = 0;  ///< of a vector of N normal values, on average
};

/// Covariance matrix adaptation: a normal distribution moves to the better half of what was drawn from it, and learns
/// its shape from the way it went.
inline Found cma_es(const Objective& objective, const torch::Tensor& start, const SearchOptions& options) {
  const int64_t n = start.numel();
  const bool whole = n <= kMostWithCovariances;
  const CmaRates rates(n);
  const at::Generator generator = at::detail::createCPUGenerator(options.seed);
  LimitedObjective evaluate(objective, options.limit);
  torch::Tensor mean = start.to(torch::kDouble).clone();
  torch::Tensor sigma_path = torch::zeros_like(mean), path = torch::zeros_like(mean);
  torch::Tensor covariance = whole ? torch::eye(n, torch::kDouble) : torch::ones_like(mean);
  torch::Tensor axes = whole ? covariance.clone() : torch::Tensor(), scales = torch::ones_like(mean);
  double sigma = options.sigma;
  const torch::Tensor weights = torch::tensor(rates.weights, torch::kDouble);
  for (int64_t generation = 1; !evaluate.spent(); ++generation) {
    const torch::Tensor drawn = normal_values({rates.population, n}, generator);  // one point a row
    const torch::Tensor steps = whole ? (drawn * scales).mm(axes.t()) : drawn * scales;
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t i = 0; i < rates.population && !evaluate.spent(); ++i)
      order.emplace_back(evaluate(mean + sigma * steps[i]), i);
    if (std::ssize(order) < rates.population) break;
    std::sort(order.begin(), order.end());
    std::vector<int64_t> better;
    for (size_t i = 0; i < rates.weights.size(); ++i) better.push_back(order[i].second);
    const torch::Tensor chosen = steps.index_select(0, torch::tensor(better));  // (better half, N)
    const torch::Tensor move = weights.matmul(chosen);
    mean += sigma * move;

    const torch::Tensor equal = whole ? axes.matmul(axes.t().matmul(move) / scales) : move / scales;
    sigma_path.mul_(1 - rates.of_sigma).add_(equal, std::sqrt(rates.of_sigma * (2 - rates.of_sigma) * rates.selected));
    const double length = sigma_path.norm().item<double>();
    const double remembered = 1 - std::pow(1 - rates.of_sigma, 2.0 * static_cast<double>(generation));
    // Along a path that is this long already the covariance is not to grow further.
    const bool grows = length / std::sqrt(remembered) < (1.4 + 2 / (static_cast<double>(n) + 1)) * rates.length;
    path.mul_(1 - rates.of_path);
    if (grows) path.add_(move, std::sqrt(rates.of_path * (2 - rates.of_path) * rates.selected));
    const double kept =
        1 - rates.rank_one - rates.rank_mu + (grows ? 0 : rates.rank_one * rates.of_path * (2 - rates.of_path));
    const torch::Tensor of_path = whole ? path.outer(path) : path.square();
    const torch::Tensor of_chosen =
        whole ? chosen.t().mm(chosen * weights.unsqueeze(1)) : weights.matmul(chosen.square());
    covariance.mul_(kept).add_(of_path, rates.rank_one).add_(of_chosen, rates.rank_mu);
    sigma *= std::exp(std::min(1.0, rates.of_sigma / rates.damping * (length / rates.length - 1)));
    if (whole) {
      const auto [values, vectors] = torch::linalg_eigh(covariance, "L");
      axes = vectors;
      scales = values.clamp_min(1e-20).sqrt();
    } else {
      scales = covariance.clamp_min(1e-20).sqrt();
    }
  }
  return evaluate.found();
}

/// Particle swarm: each point is drawn to the best place that it has seen, and to the best of all.
/// Source: M. Clerc, J. Kennedy, The Particle Swarm, IEEE Trans. Evolutionary Computation 6, 2002: the constants.
inline Found particle_swarm(const Objective& objective, const torch::Tensor& start, const SearchOptions& options) {
  constexpr double kInertia = 0.7298, kPull = 1.49618;
  constexpr int64_t kParticles = 24;
  const int64_t n = start.numel();
  const at::Generator generator = at::detail::createCPUGenerator(options.seed);
  LimitedObjective evaluate(objective, options.limit);
  torch::Tensor places = start.to(torch::kDouble) + options.sigma * normal_values({kParticles, n}, generator);
  torch::Tensor velocities = torch::zeros_like(places);
  torch::Tensor own_best = places.clone();
  std::vector<double> own_loss(kParticles, std::numeric_limits<double>::infinity());
  while (!evaluate.spent()) {
    for (int64_t i = 0; i < kParticles && !evaluate.spent(); ++i) {
      const double loss = evaluate(places[i]);
      if (loss >= own_loss[static_cast<size_t>(i)]) continue;
      own_loss[static_cast<size_t>(i)] = loss;
      own_best[i].copy_(places[i]);
    }
    const auto draw = [&] { return at::rand(places.sizes(), generator, places.options()); };
    const torch::Tensor to_own = draw() * (own_best - places), to_best = draw() * (evaluate.found().point - places);
    velocities.mul_(kInertia).add_(to_own, kPull).add_(to_best, kPull);
    places.add_(velocities);
  }
  return evaluate.found();
}

/// Simulated annealing: a random step that is worse is taken, too, with a probability that falls with the temperature.
/// Steps shrink with it. Source: S. Kirkpatrick, C. Gelatt, M. Vecchi, Optimization by Simulated Annealing, 1983.
inline Found simulated_annealing(const Objective& objective, const torch::Tensor& start, const SearchOptions& options) {
  constexpr double kHot = 0.1, kCold = 1e-4;  // of a loss of about 1
  const at::Generator generator = at::detail::createCPUGenerator(options.seed);
  LimitedObjective evaluate(objective, options.limit);
  torch::Tensor place = start.to(torch::kDouble).clone();
  double loss = evaluate(place);
  while (!evaluate.spent()) {
    const double temperature = kHot * std::pow(kCold / kHot, evaluate.part_spent());
    const double size = options.sigma * std::sqrt(temperature / kHot);
    const torch::Tensor next = place + size * normal_values(place.sizes(), generator);
    const double next_loss = evaluate(next);
    const double chance = at::rand({1}, generator, place.options()).item<double>();
    if (next_loss > loss && chance >= std::exp((loss - next_loss) / temperature)) continue;
    place = next;
    loss = next_loss;
  }
  return evaluate.found();
}

}  // namespace tenfold::inline lesson_64
