#pragma once
// The convnet workload: a small convolution net on Fashion-MNIST, or on images that a lesson brings.

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/models/fashion_mnist.h"

namespace tenfold {

namespace convnet {
inline constexpr Setting<int64_t> kBatch{"batch", {64, 512, 4096}, "images in a batch"};
inline constexpr Setting<int64_t> kChannels{"channels", {16, 32, 64}, "output channels of the first convolution"};
inline constexpr Setting<double> kLearningRate{"learning_rate", 0.01, "of SGD with momentum 0.9"};
}  // namespace convnet

struct ConvNetOptions {
  int64_t channels = 16;
  int64_t colours = 1, side = 28, classes = 10;  ///< of the images; `side` is a multiple of 4
  double learning_rate = 0.01;
};
/// As the trial's settings have them.
ConvNetOptions convnet_options(const Trial& trial);

/// Two convolutions and a linear layer. No batch normalisation: its statistics would make micro-batches and ranks
/// compute something else than the full batch.
struct ConvNetImpl : torch::nn::Module {
  explicit ConvNetImpl(const ConvNetOptions& options);
  torch::Tensor forward(const torch::Tensor& images);  // (B, colours, side, side) -> (B, classes)

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear head;
};
TORCH_MODULE(ConvNet);

/// What a variant trains with: the model, and SGD with momentum, whose update shows an error of scale.
struct ConvNetTraining {
  ConvNetTraining(const ConvNetOptions& options, torch::Device device);
  Parameters parameters() const { return model->named_parameters(); }

  ConvNet model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// The workload as it is: on batches of Fashion-MNIST. `next_batch` gives (B, 1, 28, 28) and (B).
struct FashionConvNet : ConvNetTraining {
  explicit FashionConvNet(const Trial& trial);
  std::pair<torch::Tensor, torch::Tensor> next_batch() { return batches.next(); }

  FashionBatches batches;
};

/// Most bytes of tensors alive at a time in a training step: next_batch(), zero_grad(), forward, backward, update, in
/// 32-bit numbers. Parameters and momentum are in it; allocators' rounding and libraries' workspaces are not.
/// On a CPU with oneDNN, which reorders what it convolves; elsewhere without.
int64_t step_peak_bytes(const ConvNetOptions& options, int64_t batch, torch::Device device);
/// The same with the trial's settings.
int64_t convnet_most_bytes(const Trial& trial);

inline const Workload convnet_workload{.name = "convnet",
                                       .items = "images",
                                       .settings = {convnet::kBatch, convnet::kChannels, convnet::kLearningRate},
                                       .most_bytes = convnet_most_bytes,
                                       .make = image_work<FashionConvNet>};

}  // namespace tenfold
