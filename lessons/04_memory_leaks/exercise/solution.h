#pragma once
// A solution of exercise 04.
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

using Batch = std::pair<torch::Tensor, torch::Tensor>;  ///< images (B, 784) and labels (B)

struct Report {
  std::vector<double> losses, validation;  ///< of each step
  int64_t correct = 0;                     ///< training images that the model had right when it saw them
  double largest_gradient = 0;             ///< norm of the weights' gradient, the largest of all steps
};

/// Trains `steps` steps with plain SGD and validates after each. `after_step` is called at the end of each step. The
/// scopes, "data", "train" and so on, are what the checks know the parts of a step by: let them stand.
inline Report train(torch::nn::Linear model, const std::function<Batch()>& next_batch, const Batch& held_out,
                    int64_t steps, const std::function<void()>& after_step) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  Report report;
  // One hook for all steps, which captures no tensor; it goes with the function that it points into.
  const unsigned hook = model->weight.register_hook([&report](const torch::Tensor& gradient) {
    report.largest_gradient = std::max(report.largest_gradient, gradient.norm().item<double>());
  });
  for (int64_t step = 0; step < steps; ++step) {
    Batch batch;
    {
      RECORD_USER_SCOPE("data");
      batch = next_batch();
    }
    {
      RECORD_USER_SCOPE("train");
      const torch::Tensor logits = model->forward(batch.first);                    // (B, 10)
      report.correct += (logits.argmax(1) == batch.second).sum().item<int64_t>();  // a number, not the logits
      optimizer.zero_grad();
      torch::Tensor loss = torch::cross_entropy_loss(logits, batch.second);
      loss.backward();
      optimizer.step();
      report.losses.push_back(loss.item<double>());
    }
    {
      RECORD_USER_SCOPE("validation");
      const torch::NoGradGuard no_grad;
      report.validation.push_back(
          torch::cross_entropy_loss(model->forward(held_out.first), held_out.second).item<double>());
    }
    after_step();
  }
  model->weight.remove_hook(hook);
  return report;
}
