#include "common/models/mlp.h"

#include <algorithm>

namespace tenfold {

using torch::Tensor;

MlpOptions mlp_options(const Trial& trial) {
  return {trial.get(mlp::kLayers), trial.get(mlp::kWidth), trial.get(mlp::kLearningRate)};
}

MlpImpl::MlpImpl(const MlpOptions& options) {
  int64_t inputs = 7 * 7;
  for (int64_t i = 0; i + 1 < options.layers; ++i) {
    layers->push_back(torch::nn::Linear(inputs, options.width));
    layers->push_back(torch::nn::ReLU());
    inputs = options.width;
  }
  layers->push_back(torch::nn::Linear(inputs, 10));
  register_module("layers", layers);
}

Tensor MlpImpl::forward(const Tensor& images) { return layers->forward(torch::avg_pool2d(images, {4, 4}).flatten(1)); }

MlpTraining::MlpTraining(const Trial& trial, const MlpOptions& options, int64_t batch)
    : batches(trial, batch), model(options) {
  model->to(trial.device);
  optimizer = std::make_unique<torch::optim::SGD>(model->parameters(),
                                                  torch::optim::SGDOptions(options.learning_rate).momentum(0.9));
}

namespace {

constexpr int64_t kInputs = 7 * 7, kClasses = 10;

int64_t first_layer_bytes(const MlpOptions& options) {
  return options.layers > 1 ? 4 * (kInputs + 1) * options.width : 0;
}
int64_t last_layer_bytes(const MlpOptions& options) {
  return 4 * ((options.layers > 1 ? options.width : kInputs) + 1) * kClasses;
}

}  // namespace

int64_t parameter_bytes(const MlpOptions& options) {
  const int64_t between = 4 * std::max<int64_t>(0, options.layers - 2) * (options.width + 1) * options.width;
  return first_layer_bytes(options) + between + last_layer_bytes(options);
}

int64_t step_peak_bytes(const MlpOptions& options, int64_t batch) {
  const int64_t hidden = options.layers - 1, width = options.width;
  const int64_t first = first_layer_bytes(options), last = last_layer_bytes(options);
  const int64_t parameters = parameter_bytes(options);
  const int64_t activation = 4 * batch * width;
  const int64_t inputs = fashion_batch_bytes(batch) + 4 * batch * kInputs;  // with the averaged images
  // Parameters and momentum always; the gradients of the step before until zero_grad().
  const int64_t making_batch = 3 * parameters + fashion_batch_peak_bytes(batch);
  // Every layer's output is kept; the backward of a ReLU holds its result and two gradients of its size.
  const int64_t at_last_relu = 2 * parameters + inputs + last + (hidden + 2) * activation;
  const int64_t at_first_relu = 3 * parameters - first + inputs + 3 * activation;
  const int64_t at_end = 3 * parameters + inputs + activation;
  return std::max({making_batch, at_last_relu, at_first_relu, at_end});
}

int64_t mlp_most_bytes(const Trial& trial) { return step_peak_bytes(mlp_options(trial), trial.get(mlp::kBatch)); }

}  // namespace tenfold
