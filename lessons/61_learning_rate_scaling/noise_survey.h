#pragma once
// The gradient of mini-batches at weights that stay: how much it varies with the batch, and its noise scale by three
// ways of counting. Batches are drawn with replacement from some images, so that all single gradients of these images
// say exactly what the batches can only estimate.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/models/fashion_mnist.h"
#include "common/models/host_batch.h"
#include "gradient_noise.h"
#include "rate_training.h"

namespace tenfold::inline lesson_61 {

/// A model's gradients on a few images.
class FixedWeights {
 public:
  FixedWeights(Mlp model, torch::Device device, int64_t images, uint64_t seed)
      : model_(std::move(model)), parameters_(model_->parameters()), generator_(at::detail::createCPUGenerator(seed)) {
    const ImageSet all = fashion_mnist(/*train=*/true);
    images_ = normalise_images(tensor_on(device, all.images.narrow(0, 0, images)));
    labels_ = tensor_on(device, all.labels.narrow(0, 0, images));
  }

  int64_t images() const { return images_.size(0); }

  /// Of the mean loss over these images, (P). `rows` (B) are on the CPU.
  torch::Tensor gradient(const torch::Tensor& rows) {
    const torch::Tensor on_device = rows.to(images_.device());
    const torch::Tensor loss = torch::cross_entropy_loss(model_->forward(images_.index_select(0, on_device)),
                                                         labels_.index_select(0, on_device));
    std::vector<torch::Tensor> flat;
    for (const torch::Tensor& gradient : torch::autograd::grad({loss}, parameters_)) flat.push_back(gradient.flatten());
    return torch::cat(flat);
  }
  torch::Tensor drawn_gradient(int64_t batch) {
    return gradient(torch::randint(0, images(), {batch}, generator_, torch::kLong));
  }

  /// What all images say by themselves: no estimate, as the batches come from nothing else.
  NoiseEstimate exact() {
    double squares = 0;
    for (int64_t i = 0; i < images(); ++i)
      squares += squared_norm_of({gradient(torch::full({1}, i, torch::kLong))}).item<double>();
    squares /= static_cast<double>(images());
    const double mean = squared_norm_of({gradient(torch::arange(images()))}).item<double>();
    return {.trace = squares - mean, .squared_norm = mean};
  }

  /// Sum over the parameters of their gradients' variance between batches, from so many of them: unbiased.
  double variance(int64_t batch, int64_t batches) {
    torch::Tensor sum;
    double squares = 0;
    for (int64_t i = 0; i < batches; ++i) {
      const torch::Tensor drawn = drawn_gradient(batch).to(torch::kDouble);
      sum = sum.defined() ? sum + drawn : drawn;
      squares += drawn.square().sum().item<double>();
    }
    const auto n = static_cast<double>(batches);
    return (squares - (sum / n).square().sum().item<double>() * n) / (n - 1);
  }

 private:
  Mlp model_;
  std::vector<torch::Tensor> parameters_;
  at::Generator generator_;
  torch::Tensor images_, labels_;
};

/// b of y = a x^b, by least squares of the logarithms. Needs two different x, and values above 0.
inline double exponent(const std::vector<double>& x, const std::vector<double>& y) {
  double mean_x = 0, mean_y = 0, covariance = 0, variance = 0;
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += std::log(x[i]) / n;
    mean_y += std::log(y[i]) / n;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    covariance += (std::log(x[i]) - mean_x) * (std::log(y[i]) - mean_y);
    variance += (std::log(x[i]) - mean_x) * (std::log(x[i]) - mean_x);
  }
  return covariance / variance;
}

/// The noise scale from updates of `times` small batches.
struct MeasuredNoise {
  NoiseEstimate estimate;        ///< ratio of averages
  double average_of_ratios = 0;  ///< the trap: in samples, as the other would be
};

inline MeasuredNoise measured_noise(FixedWeights& weights, int64_t batch, int64_t times, int64_t updates) {
  GradientNoise noise(batch, batch * times);
  double ratios = 0;
  for (int64_t update = 0; update < updates; ++update) {
    torch::Tensor sum, squares;
    for (int64_t i = 0; i < times; ++i) {
      const torch::Tensor gradient = weights.drawn_gradient(batch), square = squared_norm_of({gradient});
      sum = sum.defined() ? sum + gradient : gradient;
      squares = squares.defined() ? squares + square : square;
    }
    const torch::Tensor small = squares / times, large = squared_norm_of({sum / times});
    noise.add(small, large);
    const NoiseEstimate alone = noise_of_two_batches(batch, batch * times, small.item<double>(), large.item<double>());
    ratios += alone.trace / alone.squared_norm;  // also where the estimate below the line is negative
  }
  return {noise.estimate(), ratios / static_cast<double>(updates)};
}

/// The trial's model after so many updates with the small batch.
inline FixedWeights weights_after(const Trial& trial, int64_t updates) {
  constexpr int64_t kPopulation = 256;
  torch::manual_seed(trial.seed);
  PlannedTraining work(trial, planned(trial, {.large = false}));
  for (int64_t update = 0; update < updates; ++update) work.update();
  return {work.model, trial.device, kPopulation, trial.seed + 1};
}

inline void note_variance(const Trial& trial, int64_t updates) {
  constexpr int64_t kBatches = 48;
  FixedWeights weights = weights_after(trial, updates);
  std::vector<double> sizes, means, sums;
  for (const int64_t batch : {4, 16, 64, 256}) {
    const double variance = weights.variance(batch, kBatches), size = static_cast<double>(batch);
    trial.note("batch " + std::to_string(batch) + ": variance", variance, "");
    sizes.push_back(size);
    means.push_back(variance);
    sums.push_back(variance * size * size);  // of the summed loss, whose gradient is B times as large
  }
  trial.note("batch 256 / batch 4", means.back() / means.front(), "x");
  trial.note("exponent of B", exponent(sizes, means), "");
  trial.note("exponent of B, summed loss", exponent(sizes, sums), "");
}

inline void note_noise_scale(const Trial& trial, int64_t updates) {
  constexpr int64_t kMeasured = 64;
  FixedWeights weights = weights_after(trial, updates);
  const double exact = weights.exact().scale();
  const MeasuredNoise measured = measured_noise(weights, trial.get(mlp::kBatch), trial.get(kTimes), kMeasured);
  trial.note("sample by sample", exact, "images");
  trial.note("two batch sizes", measured.estimate.scale(), "images");
  trial.note("off by", 100 * std::abs(measured.estimate.scale() / exact - 1), "%");
  trial.note("average of ratios", measured.average_of_ratios, "images");
  trial.note("average of ratios, off by", 100 * std::abs(measured.average_of_ratios / exact - 1), "%");
}

}  // namespace tenfold::inline lesson_61
