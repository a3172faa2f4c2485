#pragma once
// R1, the convolution workload, on Fashion-MNIST or on openclipart; R3, the launch-bound one, on Fashion-MNIST.

#include <torch/torch.h>

#include <memory>
#include <utility>

#include <tenfold/lesson.h>

namespace tenfold {

/// Two convolutions and a linear layer. No batch normalisation: its statistics would make micro-batches and ranks
/// compute something else than the joint batch.
/// `side` must be a multiple of 4.
struct ConvNetImpl : torch::nn::Module {
  explicit ConvNetImpl(int64_t channels, int64_t colours = 1, int64_t side = 28, int64_t classes = 10);
  torch::Tensor forward(const torch::Tensor& images);  // (B, colours, side, side) -> (B, classes)

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear head;
};
TORCH_MODULE(ConvNet);

/// Many small layers: each operator is so short that launching it is what costs.
struct MlpImpl : torch::nn::Module {
  MlpImpl(int64_t layers, int64_t width);
  torch::Tensor forward(const torch::Tensor& images);  // (B, 1, 28, 28) -> (B, 10); pictures are averaged to 7 x 7

  torch::nn::Sequential layers;
};
TORCH_MODULE(Mlp);

/// Pictures for one variant, in an order that only the trial's seed decides.
class ImageBatches {
 public:
  ImageBatches(const Trial& trial, int64_t batch);
  /// (B, 1, 28, 28) float, normalised, and (B) labels, on the trial's device. Region "data".
  std::pair<torch::Tensor, torch::Tensor> next();
  int64_t batch() const { return batch_; }

 private:
  torch::Device device_;
  int64_t batch_;
  at::Generator generator_;
};

/// What a variant of an R1 lesson trains with. Settings: batch, channels, learning_rate.
struct ConvNetTraining {
  explicit ConvNetTraining(const Trial& trial);
  std::pair<torch::Tensor, torch::Tensor> next_batch() { return batches.next(); }
  Parameters parameters() const { return model->named_parameters(); }

  ImageBatches batches;
  ConvNet model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// What a variant of an R1 lesson on openclipart trains with; pictures are what the lesson brings. Settings: channels, learning_rate.
struct ClipartTraining {
  ClipartTraining(const Trial& trial, int64_t colours, int64_t side, int64_t classes);
  Parameters parameters() const { return model->named_parameters(); }

  ConvNet model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// What a variant of an R3 lesson trains with. Settings: batch, layers, width, learning_rate.
struct MlpTraining {
  explicit MlpTraining(const Trial& trial);
  std::pair<torch::Tensor, torch::Tensor> next_batch() { return batches.next(); }
  Parameters parameters() const { return model->named_parameters(); }

  ImageBatches batches;
  Mlp model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

}  // namespace tenfold
