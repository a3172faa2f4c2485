#include "common/models/convnet.h"

#include <algorithm>

namespace tenfold {

using torch::Tensor;

ConvNetOptions convnet_options(const Trial& trial) {
  return {.channels = trial.get(convnet::kChannels), .learning_rate = trial.get(convnet::kLearningRate)};
}

ConvNetImpl::ConvNetImpl(const ConvNetOptions& options)
    : conv1(torch::nn::Conv2dOptions(options.colours, options.channels, 3).padding(1)),
      conv2(torch::nn::Conv2dOptions(options.channels, 2 * options.channels, 3).padding(1).stride(2)),
      head(2 * options.channels * (options.side / 4) * (options.side / 4), options.classes) {
  TORCH_CHECK_VALUE(options.side % 4 == 0, "ConvNet: the side must be a multiple of 4, got ", options.side);
  register_module("conv1", conv1);
  register_module("conv2", conv2);
  register_module("head", head);
}

Tensor ConvNetImpl::forward(const Tensor& images) {
  Tensor h = torch::relu(conv1(images));                 // (B, C, S, S)
  h = torch::max_pool2d(torch::relu(conv2(h)), {2, 2});  // (B, 2 C, S / 4, S / 4)
  return head(h.flatten(1));
}

ConvNetTraining::ConvNetTraining(const ConvNetOptions& options, torch::Device device) : model(options) {
  model->to(device);
  optimizer = std::make_unique<torch::optim::SGD>(model->parameters(),
                                                  torch::optim::SGDOptions(options.learning_rate).momentum(0.9));
}

FashionConvNet::FashionConvNet(const Trial& trial)
    : ConvNetTraining(convnet_options(trial), trial.device), batches(trial, trial.get(convnet::kBatch)) {}

int64_t step_peak_bytes(const ConvNetOptions& options, int64_t batch, torch::Device device) {
  const int64_t channels = options.channels, side = options.side;
  const int64_t conv1 = 4 * channels * (9 * options.colours + 1);
  const int64_t conv2 = 4 * 2 * channels * (9 * channels + 1);
  const int64_t head = 4 * (2 * channels * (side / 4) * (side / 4) + 1) * options.classes;
  const int64_t images = batch * (4 * options.colours * side * side + 8);  // with labels
  const int64_t output = 4 * batch * channels * side * side;  // of the first convolution; the second's has half of it
  // Parameters, momentum, the batch and the head's gradients are there all along.
  const int64_t always = 2 * (conv1 + conv2 + head) + images + head;
  // The backward of the first ReLU: its result and two gradients of its size.
  const int64_t at_relu = always + conv2 + 3 * output;
  // oneDNN's backward of the second convolution: its input, its result's gradient, and its input's gradient three
  // times: in blocks of 8 or 16 channels, which odd numbers do not fill, as a plain tensor, and in a copy of that.
  const int64_t in_blocks = channels % 8 == 0 ? channels : (channels + 15) / 16 * 16;
  const int64_t blocks = 4 * batch * in_blocks * side * side;
  const int64_t at_convolution = always + output + output / 2 + blocks + 2 * output;
  return device.is_cpu() ? std::max(at_relu, at_convolution) : at_relu;
}

int64_t convnet_most_bytes(const Trial& trial) {
  return step_peak_bytes(convnet_options(trial), trial.get(convnet::kBatch), trial.device);
}

}  // namespace tenfold
