#pragma once
// For lessons that exchange an operator in R2's step: a tiny GPT, trained for a few updates by R2's own step and by another.

#include <gtest/gtest.h>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include <tenfold/gpt.h>

#include "places.h"

namespace tenfold::test {

struct TinyTraining {
  GptConfig config;
  uint64_t seed = 0;
  double spread = 0;  ///< added to the parameters, times a random normal number: as they begin, much that is lost would not show
  int64_t batch = 1;
  double learning_rate = 0.1;
};

struct Trained {
  std::vector<double> losses;
  std::vector<torch::Tensor> first_gradients;
};

/// A few updates on random ids; loss_of(model, ids, targets) is the step's forward pass.
template <class LossOf>
Trained train(const TinyTraining& tiny, torch::Device device, LossOf loss_of) {
  torch::manual_seed(tiny.seed);
  Gpt model(tiny.config);
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : model->parameters()) parameter.add_(tiny.spread * torch::randn_like(parameter));
  }
  model->to(device);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(tiny.learning_rate).momentum(0.9));
  Trained result;
  for (int step = 0; step < 4; ++step) {
    const torch::Tensor text = torch::randint(tiny.config.vocabulary, {tiny.batch, tiny.config.length + 1}).to(device);
    optimizer.zero_grad();
    const torch::Tensor loss = loss_of(*model, text.slice(1, 0, tiny.config.length), text.slice(1, 1));
    loss.backward();
    if (step == 0) {
      for (const torch::Tensor& parameter : model->parameters()) result.first_gradients.push_back(parameter.grad().clone());
    }
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  return result;
}

/// On every device: with `loss_of` the losses and the first gradients are those of R2's own forward pass.
template <class LossOf>
void expect_trains_as_r2(const TinyTraining& tiny, LossOf loss_of) {
  for (const torch::Device device : devices()) {
    const Trained plain = train(tiny, device, [](GptImpl& model, const torch::Tensor& ids, const torch::Tensor& targets) {
      torch::Tensor h = model.embed(ids);
      for (auto& block : model.blocks) h = block->forward(h);
      return model.loss(h, targets);
    });
    const Trained exchanged = train(tiny, device, loss_of);
    for (size_t i = 0; i < plain.losses.size(); ++i) {
      EXPECT_NEAR(exchanged.losses[i], plain.losses[i], 1e-4) << device << ", update " << i;
    }
    EXPECT_NE(plain.losses.front(), plain.losses.back());
    for (size_t i = 0; i < plain.first_gradients.size(); ++i) {
      const double norm = plain.first_gradients[i].norm().item<double>();
      EXPECT_GT(norm, 0);
      EXPECT_LE((exchanged.first_gradients[i] - plain.first_gradients[i]).norm().item<double>(), 1e-4 * norm)
          << device << ", parameter " << i;
    }
  }
}

}  // namespace tenfold::test
