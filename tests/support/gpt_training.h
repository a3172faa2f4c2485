#pragma once
// For lessons that replace a part of the GPT: a tiny GPT, trained for a few updates with its own parts and with others.

#include <gtest/gtest.h>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "common/models/gpt.h"

#include "places.h"

namespace tenfold::test {

struct TinyTraining {
  GptOptions options;
  uint64_t seed = 0;
  double spread =
      0;  ///< added to the parameters, times a random normal number: as they begin, much that is lost would not show
};

/// A model from the seed, its parameters spread.
inline Gpt tiny_gpt(const TinyTraining& tiny, torch::Device device, GptParts parts = {}) {
  torch::manual_seed(tiny.seed);
  Gpt model(tiny.options, std::move(parts));
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : model->parameters()) parameter.add_(tiny.spread * torch::randn_like(parameter));
  model->to(device);
  return model;
}

struct Trained {
  std::vector<double> losses;
  std::vector<torch::Tensor> first_gradients;
};

/// A few updates; loss_of(step) is the forward pass of an update.
template <class LossOf>
Trained train(Gpt model, const TinyTraining& tiny, LossOf loss_of) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(tiny.options.learning_rate).momentum(0.9));
  Trained result;
  for (unsigned step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = loss_of(step);
    loss.backward();
    if (step == 0) {
      for (const torch::Tensor& parameter : model->parameters())
        result.first_gradients.push_back(parameter.grad().clone());
    }
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  return result;
}

/// The same losses, and first gradients, up to rounding.
inline void expect_same_training(const Trained& found, const Trained& expected, torch::Device device) {
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], expected.losses[i], 1e-4) << device << ", update " << i;
  }
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  for (size_t i = 0; i < expected.first_gradients.size(); ++i) {
    const double norm = expected.first_gradients[i].norm().item<double>();
    EXPECT_GT(norm, 0);
    EXPECT_LE((found.first_gradients[i] - expected.first_gradients[i]).norm().item<double>(), 1e-4 * norm)
        << device << ", parameter " << i;
  }
}

/// On every device: with these parts the losses and the first gradients are those of the GPT's own.
inline void expect_trains_as_gpt(const TinyTraining& tiny, const GptParts& parts) {
  for (const torch::Device device : devices()) {
    const auto trained = [&](const GptParts& with) {
      const Gpt model = tiny_gpt(tiny, device, with);
      return train(model, tiny, [&, length = tiny.options.length](unsigned) {
        const auto text = torch::randint(tiny.options.vocabulary(), {tiny.options.batch, length + 1}).to(device);
        return model.ptr()->loss(model.ptr()->hidden(text.slice(1, 0, length)), text.slice(1, 1));
      });
    };
    expect_same_training(trained(parts), trained({}), device);
  }
}

}  // namespace tenfold::test
