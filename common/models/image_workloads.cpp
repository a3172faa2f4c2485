#include <tenfold/image_workloads.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <tenfold/fashion_mnist.h>

namespace tenfold {
namespace {

using torch::Tensor;

std::unique_ptr<torch::optim::Optimizer> sgd(const Trial& trial, const std::vector<Tensor>& parameters, double learning_rate) {
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(trial.get("learning_rate", learning_rate)).momentum(0.9));
}

}  // namespace

ConvNetImpl::ConvNetImpl(int64_t channels, int64_t colours, int64_t side, int64_t classes)
    : conv1(torch::nn::Conv2dOptions(colours, channels, 3).padding(1)),
      conv2(torch::nn::Conv2dOptions(channels, 2 * channels, 3).padding(1).stride(2)),
      head(2 * channels * (side / 4) * (side / 4), classes) {
  TORCH_CHECK_VALUE(side % 4 == 0, "ConvNet: the side must be a multiple of 4, got ", side);
  register_module("conv1", conv1);
  register_module("conv2", conv2);
  register_module("head", head);
}

Tensor ConvNetImpl::forward(const Tensor& images) {
  Tensor h = torch::relu(conv1(images));                 // (B, C, S, S)
  h = torch::max_pool2d(torch::relu(conv2(h)), {2, 2});  // (B, 2 C, S / 4, S / 4)
  return head(h.flatten(1));
}

MlpImpl::MlpImpl(int64_t count, int64_t width) {
  int64_t inputs = 7 * 7;
  for (int64_t i = 0; i + 1 < count; ++i) {
    layers->push_back(torch::nn::Linear(inputs, width));
    layers->push_back(torch::nn::ReLU());
    inputs = width;
  }
  layers->push_back(torch::nn::Linear(inputs, 10));
  register_module("layers", layers);
}

Tensor MlpImpl::forward(const Tensor& images) { return layers->forward(torch::avg_pool2d(images, {4, 4}).flatten(1)); }

ImageBatches::ImageBatches(const Trial& trial, int64_t batch)
    : device_(trial.device), batch_(batch), generator_(at::detail::createCPUGenerator(trial.seed)) {}

std::pair<Tensor, Tensor> ImageBatches::next() {
  RECORD_USER_SCOPE("data");
  const ImageSet set = fashion_mnist(/*train=*/true);  // decoded once per process
  const Tensor picked = torch::randint(0, set.images.size(0), {batch_}, generator_, torch::kLong);
  // Bytes travel to the device and become floats there: a quarter of the copy.
  return {normalise_images(set.images.index_select(0, picked).to(device_)), set.labels.index_select(0, picked).to(device_)};
}

ConvNetTraining::ConvNetTraining(const Trial& trial)
    : batches(trial, trial.get("batch", trial.by_size(64, 512, 4096))), model(trial.get("channels", trial.by_size(16, 32, 64))) {
  model->to(trial.device);
  optimizer = sgd(trial, model->parameters(), 0.01);
}

ClipartTraining::ClipartTraining(const Trial& trial, int64_t colours, int64_t side, int64_t classes)
    : model(trial.get("channels", trial.by_size(16, 32, 64)), colours, side, classes) {
  model->to(trial.device);
  optimizer = sgd(trial, model->parameters(), 0.01);
}

MlpTraining::MlpTraining(const Trial& trial)
    : batches(trial, trial.get("batch", 32)), model(trial.get("layers", 8), trial.get("width", 64)) {
  model->to(trial.device);
  optimizer = sgd(trial, model->parameters(), 0.05);
}

}  // namespace tenfold
