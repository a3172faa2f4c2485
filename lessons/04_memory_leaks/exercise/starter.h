#pragma once
// Your answer to exercise 04. Build and check it with: ./tenfold exercise 04
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
  std::vector<torch::Tensor> losses, validation, all_logits, all_labels;
  for (int64_t step = 0; step < steps; ++step) {
    Batch batch;
    {
      RECORD_USER_SCOPE("data");
      batch = next_batch();
    }
    // Hint: three lines of this loop keep something from every step. What lives as long as `train` runs?
    model->weight.register_hook([images = batch.first, &report](const torch::Tensor& gradient) {
      report.largest_gradient = std::max(report.largest_gradient, gradient.norm().item<double>());
    });
    {
      RECORD_USER_SCOPE("train");
      const torch::Tensor logits = model->forward(batch.first);  // (B, 10)
      all_logits.push_back(logits);
      all_labels.push_back(batch.second);
      optimizer.zero_grad();
      torch::Tensor loss = torch::cross_entropy_loss(logits, batch.second);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.detach());
    }
    {
      RECORD_USER_SCOPE("validation");
      validation.push_back(torch::cross_entropy_loss(model->forward(held_out.first), held_out.second));
    }
    after_step();
  }
  for (const torch::Tensor& loss : losses) report.losses.push_back(loss.item<double>());
  for (const torch::Tensor& loss : validation) report.validation.push_back(loss.item<double>());
  for (size_t i = 0; i < all_logits.size(); ++i)
    report.correct += (all_logits[i].argmax(1) == all_labels[i]).sum().item<int64_t>();
  return report;
}
