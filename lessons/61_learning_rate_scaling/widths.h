#pragma once
// The same MLP at several widths, in the standard parametrisation and in muP: where the best learning rate is, and how
// far a few updates move what each layer puts out.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/mlp.h"
#include "mup.h"
#include "noise_survey.h"
#include "rate_training.h"

namespace tenfold::inline lesson_61 {

inline constexpr Setting<int64_t> kBaseWidth{"base_width", 16, "at which muP is the standard parametrisation"};

enum class Parametrisation { standard, mup };

/// The MLP with so many features in each inner layer.
struct Wide {
  /// Seeds LibTorch's generator: the weights are the seed's.
  Wide(const Trial& trial, int64_t width, Parametrisation parametrisation, double rate, uint64_t seed)
      : batches(of_seed(trial, seed), trial.get(mlp::kBatch)), device(trial.device), model(nullptr) {
    const MlpOptions options{.layers = trial.get(mlp::kLayers), .width = width, .learning_rate = rate};
    torch::manual_seed(seed);
    model = Mlp(options);
    MlpOptions narrow = options;
    narrow.width = parametrisation == Parametrisation::mup ? trial.get(kBaseWidth) : width;
    Mlp base(narrow);
    mup_initialise(*model, *base);
    model->to(device);
    if (trial.get(kOptimizer) == "adam") {
      const torch::optim::AdamOptions adam(rate);
      optimizer = std::make_unique<torch::optim::Adam>(mup_groups(*model, *base, adam), adam);
    } else {
      const torch::optim::SGDOptions sgd(rate);
      optimizer = std::make_unique<torch::optim::SGD>(mup_groups(*model, *base, sgd), sgd);
    }
  }

  torch::Tensor update() {
    const auto [images, labels] = batches.next();
    optimizer->zero_grad();
    const torch::Tensor loss = torch::cross_entropy_loss(model->forward(images), labels);
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  double quality() { return bounded_held_out_loss(model, device); }
  /// What each linear layer puts out for these images: (B, width), the last (B, 10).
  std::vector<torch::Tensor> outputs(const torch::Tensor& images) {
    const torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> found;
    torch::Tensor x = torch::avg_pool2d(images, {4, 4}).flatten(1);
    for (const auto& layer : model->layers->children()) {
      if (auto* const linear = layer->as<torch::nn::Linear>()) {
        x = linear->forward(x);
        found.push_back(x);
      } else {
        x = torch::relu(x);
      }
    }
    return found;
  }

  static Trial of_seed(const Trial& trial, uint64_t seed) {
    Trial other = trial;
    other.seed = seed;
    return other;
  }

  FashionBatches batches;
  torch::Device device;
  Mlp model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// Powers of two around the workload's rate; the best one by a training of a seed that nothing else has.
inline double best_rate_at(const Trial& trial, int64_t width, Parametrisation parametrisation) {
  constexpr uint64_t kSeedOfSweeps = 1000003;
  const int64_t updates = trial.get(kUpdates);
  const std::string name = "best rate of width " + std::to_string(width) + ", " + std::to_string(updates) +
                           (parametrisation == Parametrisation::mup ? " updates, muP" : " updates, standard");
  return trial.shared<double>(name, [&] {
    return best_rate(rates_around(trial.get(mlp::kLearningRate), -3, 2), [&](double rate) {
      Wide work(trial, width, parametrisation, rate, kSeedOfSweeps);
      return quality_after(work, updates);
    });
  });
}

/// The wide model, with the best rate of the narrow one, or with its own.
inline std::function<Learned(const Trial&)> wide_by(Parametrisation parametrisation, bool tuned_at_base) {
  return [=](const Trial& trial) {
    const int64_t width = trial.get(mlp::kWidth);
    const double narrow = best_rate_at(trial, trial.get(kBaseWidth), Parametrisation::standard);
    const double rate = tuned_at_base ? narrow : best_rate_at(trial, width, parametrisation);
    Wide work(trial, width, parametrisation, rate, trial.seed);
    trial.note("learning rate", rate, "");
    trial.note("over the best of the narrow model", rate / narrow, "x");
    return train_by(work, {.updates = trial.get(kUpdates)}, trial.get(mlp::kBatch));
  };
}

/// Exponents over the width of how far the first updates move each layer's output.
struct Coordinates {
  double first = 0, hidden = 0, logits = 0;
};

/// Root mean square over images and features; `hidden` is the last layer before the logits. Needs three layers or more.
inline Coordinates coordinate_check(const Trial& trial, Parametrisation parametrisation, double rate,
                                    const std::vector<int64_t>& widths, int64_t updates) {
  std::vector<double> sizes, first, hidden, logits;
  const torch::Tensor images = normalise_images(fashion_mnist(/*train=*/true).images.narrow(0, 0, 64)).to(trial.device);
  for (const int64_t width : widths) {
    Wide work(trial, width, parametrisation, rate, trial.seed);
    const std::vector<torch::Tensor> before = work.outputs(images);
    for (int64_t update = 0; update < updates; ++update) work.update();
    const std::vector<torch::Tensor> after = work.outputs(images);
    std::vector<double> moved;
    for (size_t i = 0; i < after.size(); ++i)
      moved.push_back((after[i] - before[i]).square().mean().sqrt().item<double>());
    sizes.push_back(static_cast<double>(width));
    first.push_back(moved.front());
    hidden.push_back(moved.at(moved.size() - 2));
    logits.push_back(moved.back());
  }
  return {exponent(sizes, first), exponent(sizes, hidden), exponent(sizes, logits)};
}

inline void note_coordinates(const Trial& trial, Parametrisation parametrisation) {
  constexpr double kRate = 0.001;
  const Coordinates found = coordinate_check(trial, parametrisation, kRate, {64, 128, 256, 512}, 3);
  trial.note("first layer", found.first, "");
  trial.note("last hidden layer", found.hidden, "");
  trial.note("logits", found.logits, "");
}

}  // namespace tenfold::inline lesson_61
